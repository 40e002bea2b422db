# SPDX-License-Identifier: Apache-2.0
"""What a job of `trainwright local run` leaves: where its output lies, and what it wrote there."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, TextIO

from trainwright.api.messages import counted
from trainwright.api.objects import Document, dig, name_of, namespace_of, uid_of
from trainwright.api.times import format_time, parse
from trainwright.api.trainer.v1alpha1.constants import NODE
from trainwright.controller.cli.commands import WrongUseError
from trainwright.controller.local.node.images import NodeAnnotations
from trainwright.controller.local.node.outputs import (
    LATEST,
    MARKER,
    PODS,
    OutputOwner,
    folder_of,
    point,
    read_owner,
    refusal,
)
from trainwright.controller.views.text import aligned

_SHOWN = 10
"""Files of an output that are named one by one."""


class OutputFile(NamedTuple):
    size: int
    changed: int
    """In nanoseconds."""


def folder_of_job(job: Document) -> Path | None:
    found: dict[str, str] = {}
    for patch in job["spec"].get("runtimePatches") or ():
        for part in dig(patch, "trainingRuntimeSpec.template.spec.replicatedJobs") or ():
            found.update(dig(part, "template.spec.template.metadata.annotations") or {})
    asked = NodeAnnotations.of({"metadata": {"annotations": found}}, NODE)
    if asked.output:
        return Path(asked.output)
    return folder_of(Path(asked.runs), name_of(job), uid_of(job)) if asked.runs else None


def check(folder: Path, job: Document) -> None:
    """Raises WrongUseError if the folder cannot be the output of a job that is about to be created."""
    try:
        there = next(path for path in (folder, *folder.parents) if path.exists())
        if not there.is_dir():
            raise WrongUseError(f"--output: {there} is not a folder")
        if not os.access(there, os.W_OK | os.X_OK):
            raise WrongUseError(f"--output: {there} cannot be written")
        why = refusal(folder, OutputOwner(namespace=namespace_of(job), job=name_of(job), uid=""))
    except OSError as error:
        raise WrongUseError(f"--output: {folder}: {error.strerror}") from error
    if why:
        owner = read_owner(folder)
        again = f", or go on in it with --job-name={owner.job}" if owner is not None else ""
        raise WrongUseError(f"--output: {why}; name another folder{again}")


class JobOutput:
    """The output of one job, from before it starts to its end: the folder that was `given`, or one of its own."""

    def __init__(self, given: Path | None) -> None:
        self._folder = given
        self._before = files_of(given) if given is not None else {}

    @classmethod
    def of(cls, job: Document) -> "JobOutput":
        """That of a job that was created before."""
        made = cls(None)
        made.created(job)
        began = parse(job["metadata"]["creationTimestamp"]).timestamp() * 1e9
        if made._folder is not None:
            found = files_of(made._folder)
            made._before = {name: file for name, file in found.items() if file.changed < began}
        return made

    def created(self, job: Document) -> None:
        self._folder = folder_of_job(job)

    def tell_where(self) -> None:
        if self._folder is not None:
            print(f"output: {self._folder}")

    def tell(self, out: TextIO | None = None) -> None:
        """Print, at the end of the job, where it lies and what was written there since the beginning."""
        shown = sys.stdout if out is None else out
        if self._folder is None or not self._folder.is_dir():
            return
        written = {name: file for name, file in files_of(self._folder).items() if self._before.get(name) != file}
        print(f"output: {self._folder}{'' if written else ' (nothing was written there)'}", file=shown)
        print(*table(written), sep="\n", end="\n" if written else "", file=shown)
        if (self._folder / PODS).is_dir():
            for path in sorted((self._folder / PODS).iterdir()):
                print(f"working folder: {path}", file=shown)
        shown.flush()


def files_of(folder: Path) -> dict[str, OutputFile]:
    """All files of an output, by their path in it, without the one that says whose it is."""
    found: dict[str, OutputFile] = {}
    for where, _, names in os.walk(folder):
        for name in names:
            path = Path(where, name)
            try:
                state = path.lstat()
            except OSError:
                continue  # a training may still change its files
            found[str(path.relative_to(folder))] = OutputFile(state.st_size, state.st_mtime_ns)
    return {name: file for name, file in found.items() if not name.startswith(MARKER)}


def table(files: Mapping[str, OutputFile]) -> list[str]:
    """Files with their sizes; of many, the largest."""
    largest = sorted(files, key=lambda name: (-files[name].size, name))[:_SHOWN]
    width = max(map(len, largest), default=0)
    lines = [f"  {name:<{width}}  {size_of(files[name].size):>9}" for name in sorted(largest)]
    rest = [file.size for name, file in files.items() if name not in largest]
    return [*lines, f"  and {counted(len(rest), 'more file')}, {size_of(sum(rest))}"] if rest else lines


def size_of(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 99.95 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


@dataclass(frozen=True, slots=True)
class KeptOutput:
    folder: Path
    owner: OutputOwner
    began: float

    def summary(self) -> str:
        files = files_of(self.folder)
        return f"{counted(len(files), 'file')}, {size_of(sum(file.size for file in files.values()))}"


def kept_in(runs: Path) -> list[KeptOutput]:
    """The outputs of all jobs, the latest first. Links, and folders that no job has claimed, are not among them."""
    found = [None if folder.is_symlink() else kept(folder) for folder in (runs.iterdir() if runs.is_dir() else ())]
    return sorted((one for one in found if one is not None), key=lambda one: one.began, reverse=True)


def kept(folder: Path) -> KeptOutput | None:
    """The output of a job that the folder is; None for any other one."""
    owner = read_owner(folder)
    return KeptOutput(folder, owner, (folder / MARKER).stat().st_mtime) if owner is not None else None


def named(known: Sequence[KeptOutput], name: str) -> list[KeptOutput]:
    """Those that the name means: of the folder, of the job, or `latest`."""
    if name == LATEST:
        return [*known[:1]]
    return [one for one in known if name in (one.folder.name, one.owner.job)]


def overview(known: Sequence[KeptOutput]) -> list[str]:
    rows = [["OUTPUT", "JOB", "CLUSTER", "MADE", "HOLDS"]]
    for one in known:
        made = format_time(datetime.fromtimestamp(one.began, UTC))
        rows.append([one.folder.name, one.owner.job, Path(one.owner.cluster).name, made, one.summary()])
    return aligned(rows, gap=2)


def point_to_latest(runs: Path) -> None:
    """Let the link `latest` lead to the output that was made last of those that are left."""
    known = kept_in(runs)
    if known:
        point(runs / LATEST, known[0].folder.name)
    elif (runs / LATEST).is_symlink():
        (runs / LATEST).unlink()
