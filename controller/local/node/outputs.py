# SPDX-License-Identifier: Apache-2.0
"""Where a job of a local cluster leaves what it makes: one folder for all of its pods, TRAINWRIGHT_OUTPUT_DIR.

It is claimed before the first container starts, and never emptied: a folder with files of another job is refused. A
file in it says whose it is, so that the job may go on in it after a restart, and a later job of the same name, too.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from trainwright.api.objects import Document, name_of, namespace_of, uid_of

VARIABLE = "TRAINWRIGHT_OUTPUT_DIR"
CHECKPOINTS_VARIABLE = "TRAINWRIGHT_CHECKPOINT_DIR"
CHECKPOINTS = "checkpoints"
"""In the folder: the checkpoints of its jobs, apart, so that a later one of the same name begins at the start."""
MARKER = ".trainwright.json"
"""In the folder: whose it is."""
LATEST = "latest"
"""A link beside the folders of jobs, to the one that was made last."""
PODS = "pods"
"""In the folder: the working folders of pods that have one of their own."""


class OutputError(Exception):
    """The folder cannot be the output of the job; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOwner:
    namespace: str
    job: str
    uid: str
    cluster: str = ""
    """Folder of the cluster that ran it."""

    def is_same_job(self, other: "OutputOwner") -> bool:
        """Whether the other one has the same name; it may have been made later."""
        return (self.namespace, self.job) == (other.namespace, other.job)


def owner_of(pod: Document, job_set: Document | None, cluster: Path) -> OutputOwner:
    """The job that a pod belongs to: what controls its JobSet, else the JobSet, else the pod itself."""
    top = job_set or pod
    references = top["metadata"].get("ownerReferences") or () if job_set else ()
    owner = next((one for one in references if one.get("controller")), None)
    name, uid = (owner["name"], owner["uid"]) if owner else (name_of(top), uid_of(top))
    return OutputOwner(namespace=namespace_of(pod), job=str(name), uid=str(uid), cluster=str(cluster))


def folder_of(runs: Path, job: str, uid: str) -> Path:
    return runs / f"{job}-{uid[:8]}"


def checkpoints_in(output: Path, owner: OutputOwner) -> Path:
    """Where a job keeps its checkpoints, in its output."""
    own = output / CHECKPOINTS
    is_own = output.name == folder_of(output, owner.job, owner.uid).name
    return own if is_own else folder_of(own, owner.job, owner.uid)


def claim_below(runs: Path, owner: OutputOwner) -> Path:
    """Make the folder of a job among those of all jobs, and let `latest` lead to it. Raises OutputError."""
    folder = folder_of(runs, owner.job, owner.uid)
    try:
        runs.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_new = not folder.exists()
    except OSError as error:
        raise _not_made(folder, error) from error
    claim(folder, owner)
    if is_new:
        point(runs / LATEST, folder.name)
    return folder


def claim(folder: Path, owner: OutputOwner) -> None:
    """Make the folder, or take the one that is there, as the output of a job. Raises OutputError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder):
            found = read_owner(folder)
            if found == owner:
                return
            if why := refusal(folder, owner):
                raise OutputError(why)
            draft = folder / f"{MARKER}.new"
            draft.write_text(json.dumps(asdict(owner)) + "\n", encoding="utf-8")
            draft.replace(folder / MARKER)
    except OSError as error:
        raise _not_made(folder, error) from error


def refusal(folder: Path, owner: OutputOwner) -> str:
    """Why the folder cannot be the output of the job; empty if it can. Raises OSError."""
    if not folder.exists():
        return ""
    found = read_owner(folder)
    if found is not None and found.is_same_job(owner):
        return ""
    names = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith(MARKER))
    if not names:
        return ""
    whose = f"is the output of TrainJob {found.job}" if found is not None else "is not the output of a job"
    return f"{folder} {whose} and holds {names[0]}{f' and {len(names) - 1} more' if names[1:] else ''}"


def read_owner(folder: Path) -> OutputOwner | None:
    """Whose output the folder is; None if it does not say."""
    with suppress(OSError, ValueError, TypeError):
        return OutputOwner(**json.loads((folder / MARKER).read_text(encoding="utf-8")))
    return None


def _not_made(folder: Path, error: OSError) -> OutputError:
    return OutputError(f"output {folder} cannot be made: {error.strerror or error}")


def point(link: Path, target: str) -> None:
    """Let the link lead to the target. What is there and is not a link stays."""
    if link.exists() and not link.is_symlink():
        return
    draft = link.with_name(f".{link.name}.{target}")
    with suppress(OSError):
        draft.symlink_to(target)
        draft.replace(link)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Two pods claim the folder at once."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Some network file systems lock files only; what is written is the same for all pods of a job.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
