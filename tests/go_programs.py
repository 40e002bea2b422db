# SPDX-License-Identifier: Apache-2.0
"""Go programs of the tests: built once from a folder of `hack`, into the cache of the test control plane.

The folder there is named after the sources.
"""

import fcntl
import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from trainwright.controller.runtime.testing.build import find_go
from trainwright.controller.runtime.testing.tools import cache_root

_FILES = ("go.mod", "go.sum", "main.go")


def program(sources: Path) -> Path:
    """The program of a folder with a Go module, built if it is not there yet."""
    digest = hashlib.sha256(b"".join((sources / name).read_bytes() for name in _FILES)).hexdigest()[:8]
    target = cache_root() / f"{sources.name}-{digest}" / sources.name
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        with (target.parent / ".lock").open("w") as lock, tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.is_file():
                _build(sources, Path(scratch), target)
    return target


def _build(sources: Path, scratch: Path, target: Path) -> None:
    copy = scratch / "sources"
    copy.mkdir()
    for name in _FILES:
        shutil.copyfile(sources / name, copy / name)
    go, environment = find_go(scratch, (1, 26))
    made = scratch / target.name
    command = [str(go), "build", "-trimpath", "-buildvcs=false", "-o", str(made), "."]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"building {sources} failed:\n{done.stderr}"
    made.replace(target)
