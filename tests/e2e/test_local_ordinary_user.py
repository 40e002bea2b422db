# SPDX-License-Identifier: Apache-2.0
"""The local cluster as a user without any privilege. CI is root, where namespaces are made in another way."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repository import ROOT
from trainwright.controller.local.node.isolation import probe

NOBODY = 65534
_PROGRAM = (
    "import os, pathlib; status = pathlib.Path('/proc/self/status').read_text();"
    " print('user', os.getuid(), 'capabilities', status.split('CapEff:')[1].split()[0]);"
    " print('rank', os.environ['DMLC_TASK_ID'])"
)


def python_for_others() -> str:
    """An interpreter that every user can run, of this version; root's own often lies in a closed folder."""
    found = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    code = f"import sys; raise SystemExit(sys.version_info[:2] != ({version.replace('.', ', ')}))"
    return found if found and subprocess.run([found, "-c", code], check=False).returncode == 0 else ""


@pytest.fixture
def nobody() -> Iterator[Path]:
    """A home folder of an unprivileged user; pytest's own is closed to others."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user; the other tests run as this one")
    if not python_for_others():
        pytest.skip("no interpreter of this version in /usr/bin or /usr/local/bin")
    with tempfile.TemporaryDirectory(prefix="trainwright-nobody-") as made:
        os.chown(made, NOBODY, NOBODY)
        yield Path(made)


def run_as_nobody(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command as that user: no groups, no capability, and no way to get one."""
    setpriv = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    return subprocess.run(
        [*setpriv, "--bounding-set=-all", "--no-new-privs", python_for_others(), *arguments],
        env={
            "HOME": str(home),
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": os.pathsep.join([str(ROOT), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        cwd="/",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("isolation", ["namespaces", "rewrite"])
def test_a_job_runs(nobody: Path, isolation: str) -> None:
    readable = run_as_nobody(nobody, "-c", "import aiohttp, msgspec, cel_expr_python, trainwright")
    if readable.returncode != 0:
        pytest.skip(f"this user cannot read the project or its libraries: {readable.stderr.splitlines()[-1]}")
    if isolation == "namespaces" and probe():
        pytest.skip(f"this machine refuses namespaces: {probe()}")
    file = nobody / "job.yaml"
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "job"},
        "spec": {
            "runtimeRef": {"name": "xgboost-distributed"},
            "trainer": {"numNodes": 2, "command": ["python3", "-c", _PROGRAM]},
        },
    }
    file.write_text(json.dumps(job))
    command = ("-m", "trainwright.controller.cli.main", "local", "run")
    done = run_as_nobody(nobody, *command, f"--isolation={isolation}", "--file", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert {f"[node-{rank}] user {NOBODY} capabilities 0000000000000000" for rank in (0, 1)} <= set(lines)
    assert {"[node-0] rank 0", "[node-1] rank 1", "the job is Complete"} <= set(lines)
