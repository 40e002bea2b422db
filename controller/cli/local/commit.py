# SPDX-License-Identifier: Apache-2.0
"""The git commit that a script was run from, for the annotations of its job.

A run does not fail because of it, and waits a second at most. Nothing is recorded without git or outside a repository.
"""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainwright.controller.views.parameters import ANNOTATION_COMMIT, ANNOTATION_DIRTY

SECONDS = 1.0
"""All questions to git together: a repository may be huge, or on a disk that is far away."""
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_COMMIT_OF_HEAD = ("-c", "safe.directory=*", "rev-parse", "--verify", "HEAD")
"""It runs nothing that a repository configures, so it may read a repository of another user."""


@dataclass(frozen=True, slots=True)
class Commit:
    name: str
    """40 hexadecimal digits, or 64."""
    dirty: bool | None
    """Whether tracked files of the repository differ from it, or Python files in the folder are not tracked.

    None: not known, as in a huge repository, or in one of another user, which git refuses to examine.
    """

    def annotations(self) -> dict[str, str]:
        found = {ANNOTATION_COMMIT: self.name}
        if self.dirty is not None:
            found[ANNOTATION_DIRTY] = "true" if self.dirty else "false"
        return found


def commit_of(folder: Path, *, seconds: float = SECONDS) -> Commit | None:
    """The commit that a folder is at; None outside a repository and before its first commit.

    Git is given at most `seconds`.
    """
    program = shutil.which("git")
    if program is None:
        return None
    deadline = time.monotonic() + seconds
    name = (_asked(program, folder, _COMMIT_OF_HEAD, deadline) or "").strip()
    return Commit(name, _dirty(program, folder, deadline)) if _COMMIT.fullmatch(name) else None


def _dirty(program: str, folder: Path, deadline: float) -> bool | None:
    for question in (
        ("status", "--porcelain", "--untracked-files=no"),
        # Only Python files: what a training wrote does not change what it does.
        ("ls-files", "--others", "--exclude-standard", "--", "*.py"),
    ):
        answer = _asked(program, folder, question, deadline)
        if answer is None or answer.strip():
            return None if answer is None else True
    return False


def _asked(program: str, folder: Path, question: Sequence[str], deadline: float) -> str | None:
    """The answer of git; None if there is none in time."""
    left = deadline - time.monotonic()
    if left <= 0:
        return None
    # The repository's configuration may name a program as its file system monitor; do not start one.
    command = [program, "-c", "core.fsmonitor=false", "-C", str(folder), *question]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(os.environ),
            timeout=left,
            check=True,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace")


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Without what points git to another repository, as in a hook; and git must not ask, nor lock the index."""
    kept = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
    return {**kept, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
