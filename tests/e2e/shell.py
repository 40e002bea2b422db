# SPDX-License-Identifier: Apache-2.0
"""A user's shell, with a local cluster of its own: the command line in, lines and exit codes out."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Self

import pytest

from tests.unit.local.node.modes import REFUSED
from trainwright.controller.cli.main import main

TRAINWRIGHT = (sys.executable, "-m", "trainwright.controller.cli.main")
NAMESPACES = pytest.mark.only_where(not REFUSED, f"this machine refuses namespaces: {REFUSED}")
RANK = "import os; rank = os.environ['DMLC_TASK_ID']"
JOB = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: NAME
spec:
  runtimeRef:
    name: RUNTIME
  trainer:
    numNodes: {nodes}
    command: [python, -u, -c]
    args:
      - |
        {program}
"""


class Shell:
    """A user's shell: runs commands with a state folder of the test, and without a kubeconfig."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder = folder
        self.cluster = folder / "trainwright" / "local" / "default"
        """The folder of the default cluster."""
        self.kubeconfig = self.cluster / "kubeconfig"
        self.environment = {**os.environ, "XDG_STATE_HOME": str(folder), **variables}
        for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
            self.environment.pop(name, None)

    @classmethod
    @contextmanager
    def with_cluster(cls, folder: Path, **variables: str) -> Iterator[Self]:
        """A shell whose cluster is up: starting one takes a second."""
        made = cls(folder, **variables)
        up = made.local("up")
        assert up.returncode == 0, up.stdout + up.stderr
        yield made
        made.end()

    def run(
        self, *arguments: str, seconds: float = 120.0, variables: Mapping[str, str] = MappingProxyType({})
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*TRAINWRIGHT, *arguments],
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )

    def local(self, *arguments: str, seconds: float = 120.0) -> subprocess.CompletedProcess[str]:
        return self.run("local", *arguments, seconds=seconds)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*TRAINWRIGHT, "local", *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self) -> None:
        """End the cluster, if one runs, and delete it; in this process, since a command takes a quarter of a second."""
        assert main(["local", "down", "--delete", f"--dir={self.cluster}"]) == 0

    def job(self, program: str, name: str = "job", *, nodes: int = 2, runtime: str = "xgboost-distributed") -> str:
        """A manifest whose processes run the program."""
        file = self.folder / f"{name}.yaml"
        head = JOB.replace("NAME", name).replace("RUNTIME", runtime)
        file.write_text(head.format(nodes=nodes, program=program.strip().replace("\n", "\n        ")))
        return str(file)
