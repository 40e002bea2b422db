# SPDX-License-Identifier: Apache-2.0
"""The git commit that a script was run from, for the annotations of its job.

A run never fails and never waits long for it: without git the commit is read from the repository's files, and whether
anything differs from it is then not known. Outside a repository there is nothing to record.
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
_MOST_LINKS = 5
"""From HEAD to a commit by way of symbolic references."""
_MOST_BYTES = 16 * 1024 * 1024
"""Of the file of packed references."""


@dataclass(frozen=True, slots=True)
class Commit:
    name: str
    """40 hexadecimal digits, or 64."""
    dirty: bool | None
    """Whether tracked files of the repository differ from it, or Python files in the folder are not tracked.

    None: not known.
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
    if program is not None:
        deadline = time.monotonic() + seconds
        status = _asked(program, folder, ("status", "--porcelain=v2", "--branch", "--untracked-files=no"), deadline)
        if status is not None:
            name = _named(status)
            if not name:
                return None
            return Commit(name, _dirty(program, folder, status, deadline))
    # git is missing, is slow, or refuses a repository that belongs to another user.
    try:
        name = _read(folder.resolve())
    except (OSError, ValueError, RuntimeError):
        return None
    return Commit(name, None) if name else None


def _named(status: str) -> str:
    found = re.search(r"^# branch\.oid (\S+)$", status, re.MULTILINE)
    return found[1] if found is not None and _COMMIT.fullmatch(found[1]) else ""


def _dirty(program: str, folder: Path, status: str, deadline: float) -> bool | None:
    if any(not line.startswith("#") for line in status.splitlines()):
        return True
    # Only these: what a training wrote does not change what it does.
    others = _asked(program, folder, ("ls-files", "--others", "--exclude-standard", "--", "*.py"), deadline)
    return bool(others.strip()) if others is not None else None


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


def _read(folder: Path) -> str:
    """The commit from the files of the repository; empty if there is none. Raises OSError, ValueError."""
    for above in (folder, *folder.parents):
        place = above / ".git"
        if place.is_dir() and (place / "HEAD").is_file():
            return _resolved(place, place)
        if place.is_file():  # of a further worktree, or of a submodule
            kind, _, target = place.read_text(encoding="utf-8").strip().partition(": ")
            own = (above / target).resolve()
            if kind != "gitdir" or not own.is_dir():
                return ""
            shared = own / "commondir"
            common = (own / shared.read_text(encoding="utf-8").strip()).resolve() if shared.is_file() else own
            return _resolved(own, common)
    return ""


def _resolved(own: Path, common: Path) -> str:
    """What HEAD leads to. `common`: where the references of all worktrees are."""
    reference = "HEAD"
    for _ in range(_MOST_LINKS):
        text = next((found for place in (own, common) if (found := _content(place, reference))), "")
        if not text:
            return _packed(common / "packed-refs", reference)
        if not text.startswith("ref: "):
            return text if _COMMIT.fullmatch(text) else ""
        reference = text.removeprefix("ref: ").strip()
    return ""


def _content(place: Path, reference: str) -> str:
    if ".." in Path(reference).parts or Path(reference).is_absolute():
        return ""
    file = place / reference
    return file.read_text(encoding="utf-8").strip() if file.is_file() else ""


def _packed(file: Path, reference: str) -> str:
    if not file.is_file() or file.stat().st_size > _MOST_BYTES:
        return ""
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        name, _, named = line.partition(" ")
        if named == reference and _COMMIT.fullmatch(name):
            return name
    return ""
