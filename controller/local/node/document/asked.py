# SPDX-License-Identifier: Apache-2.0
"""What a pod asks of the node of a local cluster, by annotations that name one of its containers.

    workdir.trainwright.dev/node: /home/me/project    the container starts in this folder of the machine
    workdir.trainwright.dev/node: pod                 in a folder of its pod, which is kept below the output
    output.trainwright.dev/node: /home/me/model       TRAINWRIGHT_OUTPUT_DIR is this folder
    runs.trainwright.dev/node: /home/me/runs          TRAINWRIGHT_OUTPUT_DIR is a folder of the job's own below this one
    python.trainwright.dev/node: /home/me/venv        `python` is that of this environment, or this interpreter

A TrainJob has no fields for these. Nodes of a real cluster do not read them.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from trainwright.api.objects import Document, annotations_of
from trainwright.controller.local.node.document.images import Environment, located

WORKDIR = "workdir.trainwright.dev/"
OUTPUT = "output.trainwright.dev/"
RUNS = "runs.trainwright.dev/"
PYTHON = "python.trainwright.dev/"
PREFIXES = (WORKDIR, OUTPUT, RUNS, PYTHON)
"""Each is followed by the name of a container."""
OWN = "pod"
"""Of WORKDIR: a folder of the pod's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAnnotations:
    """What is asked for one container. Empty: nothing."""

    folder: str = ""
    """An absolute path, or `pod`."""
    output: str = ""
    runs: str = ""
    python: str = ""

    @classmethod
    def of(cls, pod: Document, container: str) -> "NodeAnnotations":
        """What the annotations of the pod say about a container."""
        found = annotations_of(pod)
        folder, output, runs, python = (str(found.get(f"{prefix}{container}") or "") for prefix in PREFIXES)
        return cls(folder=folder, output=output, runs=runs, python=python)

    def missing(self) -> str:
        """Why the folder cannot be used; empty if it can."""
        if not self.folder or self.folder == OWN or Path(self.folder).is_dir():
            return ""
        return f"working folder {self.folder} does not exist: make it, or name another one"

    def environment(self, mapped: Environment) -> Environment:
        """The environment of the container, instead of the one that its image has. Raises ConfigurationError."""
        if not self.python:
            return mapped
        name, folders, interpreter = located(self.python, "the Python that the job names")
        variables = {**mapped.variables, **_of_activation(Path(folders[0]).parent)}
        return replace(mapped, name=name, folders=folders, interpreter=interpreter, variables=variables, mapped=True)


def _of_activation(prefix: Path) -> dict[str, str]:
    """What the activation of an environment would set, beside PATH."""
    if (prefix / "pyvenv.cfg").is_file():
        return {"VIRTUAL_ENV": str(prefix)}
    return {"CONDA_PREFIX": str(prefix)} if (prefix / "conda-meta").is_dir() else {}
