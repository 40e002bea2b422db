# SPDX-License-Identifier: Apache-2.0
"""Kubernetes' own field manager, as a program that answers cases (`hack/field-manager`).

It is built from Go modules once, into the cache of the test control plane, in a folder named after its sources.
"""

import fcntl
import hashlib
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.repository import ROOT
from trainwright.controller.runtime.testing.build import find_go
from trainwright.controller.runtime.testing.tools import cache_root

SOURCES = ROOT / "hack" / "field-manager"
_FILES = ("go.mod", "go.sum", "main.go")

Answer = dict[str, Any]


def program() -> Path:
    """The program, built if it is not there yet."""
    digest = hashlib.sha256(b"".join((SOURCES / name).read_bytes() for name in _FILES)).hexdigest()[:8]
    target = cache_root() / f"field-manager-{digest}" / "field-manager"
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        with (target.parent / ".lock").open("w") as lock, tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.is_file():
                _build(Path(scratch), target)
    return target


def _build(scratch: Path, target: Path) -> None:
    sources = scratch / "sources"
    sources.mkdir()
    for name in _FILES:
        shutil.copyfile(SOURCES / name, sources / name)
    go, environment = find_go(scratch, (1, 26))
    made = scratch / "field-manager"
    done = subprocess.run(
        [go, "build", "-trimpath", "-buildvcs=false", "-o", made, "."],
        cwd=sources,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"building {SOURCES} failed:\n{done.stderr}"
    made.replace(target)


class Oracle:
    """The running program; a context manager."""

    def __enter__(self) -> Self:
        # It logs what it cannot read; the answers say the same.
        self._process = subprocess.Popen(
            [program()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._schemas: dict[str, str] = {}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def ask(self, **request: Any) -> list[Answer]:
        """The distinct answers to one case; `repeat` says how often it is run."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        answers: list[Answer] = json.loads(self._process.stdout.readline())
        assert not any("broken" in answer for answer in answers), answers
        return answers

    def define(self, models: dict[str, Any]) -> str:
        """Make models known; the name to use in cases."""
        text = json.dumps(models)
        if text not in self._schemas:
            self._schemas[text] = str(len(self._schemas))
            [answer] = self.ask(op="define", schema=self._schemas[text], models=models)
            assert not answer, answer
        return self._schemas[text]
