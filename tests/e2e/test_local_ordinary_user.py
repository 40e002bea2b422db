# SPDX-License-Identifier: Apache-2.0
"""The local cluster as a user without any privilege. CI is root, where namespaces are made in another way."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.builders import train_job
from tests.readable import copy_libraries, python_for_others
from trainwright.api.objects import wire
from trainwright.controller.local.node.hosting import probe

NOBODY = 65534
REFUSED = probe()
_PROGRAM = (
    "import os, pathlib; status = pathlib.Path('/proc/self/status').read_text();"
    " print('user', os.getuid(), 'capabilities', status.split('CapEff:')[1].split()[0]);"
    " print('rank', os.environ['DMLC_TASK_ID'])"
)


@dataclass(frozen=True)
class Nobody:
    """An unprivileged user."""

    home: Path
    python: Path
    libraries: Path

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command as that user: no groups, no capability, and no way to get one."""
        setpriv = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
        return subprocess.run(
            [*setpriv, "--bounding-set=-all", "--no-new-privs", str(self.python), *arguments],
            env={
                "HOME": str(self.home),
                "PATH": f"{self.python.parent}:/usr/bin:/bin",
                "PYTHONPATH": str(self.libraries),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            cwd="/",
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.fixture(scope="module")
def files() -> Iterator[Path]:
    """A folder that other users can read; pytest's own is closed to them."""
    with tempfile.TemporaryDirectory(prefix="trainwright-readable-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture(scope="module")
def libraries(files: Path) -> Path:
    return copy_libraries(files / "libraries")


@pytest.fixture(scope="module")
def python(files: Path) -> Path:
    return python_for_others(files / "python")


@pytest.fixture
def nobody(python: Path, libraries: Path) -> Iterator[Nobody]:
    with tempfile.TemporaryDirectory(prefix="trainwright-nobody-") as made:
        os.chown(made, NOBODY, NOBODY)
        yield Nobody(Path(made), python, libraries)


@pytest.mark.only_where(os.getuid() == 0, "only root can become another user; the other tests run as this one")
@pytest.mark.parametrize(
    "isolation",
    [
        pytest.param("namespaces", marks=pytest.mark.only_where(not REFUSED, f"namespaces: {REFUSED}")),
        "rewrite",
    ],
)
def test_a_job_runs(nobody: Nobody, isolation: str) -> None:
    file = nobody.home / "job.yaml"
    trainer = {"numNodes": 2, "command": ["python3", "-c", _PROGRAM]}
    job = train_job("job", "", uid="", runtimeRef={"name": "xgboost-distributed"}, trainer=trainer)
    file.write_text(json.dumps(wire(job)))
    command = ("-m", "trainwright.controller.cli.main", "local", "run")
    done = nobody.run(*command, f"--isolation={isolation}", "--file", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert {f"[rank {rank}] user {NOBODY} capabilities 0000000000000000" for rank in (0, 1)} <= set(lines)
    assert {"[rank 0] rank 0", "[rank 1] rank 1", "the job is Complete"} <= set(lines)
