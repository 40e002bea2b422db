# SPDX-License-Identifier: Apache-2.0
"""What the annotations of a TrainJob and of its runtime say about its progress, and where training reports it.

An annotation of the TrainJob takes precedence over that of the runtime. A value that cannot be used is replaced by the
runtime's, or by the default.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trainwright.api.times import parse_duration
from trainwright.api.trainer.v1alpha1.constants import (
    ANNOTATION_PROGRESS,
    ANNOTATION_PROGRESS_STALL_AFTER,
    GROUP,
    PROGRESS_FILE,
    PROGRESS_NONE,
    PROGRESS_PUSH,
    VERSION,
)

DEFAULT_FILE = "/var/run/trainwright/progress.json"
FILE_PATTERN = "^/.*progress[^/]*[.]jsonl?$"
"""Which files the manager may read, for Python and for CEL. The admission policy on the manager's account has it, so
that the right to read progress files does not open tokens and keys."""
_PATH_BYTES = 255
_SILENCE_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Declaration:
    """How a job reports its progress."""

    progress: str = PROGRESS_PUSH
    """`push`, `none`, `file` or `file:/PATH`. With a file, reports that are pushed count as well."""
    stall_after: float | None = None
    """Seconds without a report after which the job counts as stalled; None: the manager's setting."""

    @property
    def reads_file(self) -> bool:
        """Whether the manager reads a file in a pod."""
        return may_read_file(self.progress)

    @property
    def file(self) -> str:
        """Absolute path of the file in the container that trains."""
        return self.progress.partition(":")[2] or DEFAULT_FILE


@dataclass(frozen=True, slots=True)
class Problem:
    """An annotation with a value that cannot be used."""

    annotation: str
    value: str
    message: str
    of_job: bool
    """Whether it is the TrainJob's; else it is the runtime's."""

    @property
    def warning(self) -> str:
        """What to say where the annotation refuses no job."""
        whose = "" if self.of_job else "the runtime's "
        return f"{whose}annotation {self.annotation} is ignored: {self.value!r} {self.message}"


Readers = Mapping[str, tuple[str, Callable[[str], Any]]]
"""Field and reader by annotation. A reader raises ValueError for a value that cannot be used."""


def read_by(
    readers: Readers, job: Mapping[str, str], runtime: Mapping[str, str]
) -> tuple[dict[str, Any], list[Problem]]:
    """The fields in the annotations of a TrainJob and of its runtime, and every value that cannot be used."""
    problems: list[Problem] = []
    fields: dict[str, Any] = {}
    for annotation, (field, read) in readers.items():
        for of_job, annotations in ((False, runtime), (True, job)):
            value = annotations.get(annotation)
            if value is None:
                continue
            try:
                fields[field] = read(value)
            except ValueError as error:
                problems.append(Problem(annotation, value, str(error), of_job))
    return fields, problems


def declared(job: Mapping[str, str], runtime: Mapping[str, str]) -> tuple[Declaration, tuple[Problem, ...]]:
    """The declaration in the annotations of a TrainJob and of its runtime, and every value that cannot be used."""
    fields, problems = read_by(_READERS, job, runtime)
    return Declaration(**fields), tuple(problems)


def one_of(*values: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in values:
            raise ValueError(f"must be one of {', '.join(values)}")
        return text

    return read


def may_read_file(progress: str) -> bool:
    """Whether a value of the annotation asks for a file."""
    return progress.partition(":")[0] == PROGRESS_FILE


def _progress(text: str) -> str:
    way, colon, path = text.partition(":")
    if way not in (PROGRESS_PUSH, PROGRESS_FILE, PROGRESS_NONE) or (colon and way != PROGRESS_FILE):
        raise ValueError(f"must be {PROGRESS_PUSH}, {PROGRESS_NONE}, {PROGRESS_FILE} or {PROGRESS_FILE}:/PATH")
    return f"{way}:{_path(path)}" if colon else way


def _path(text: str) -> str:
    if not text.startswith("/"):
        raise ValueError("must be an absolute path")
    if len(text.encode()) > _PATH_BYTES:
        raise ValueError(f"must have at most {_PATH_BYTES} bytes")
    if ".." in text.split("/") or not text.isprintable() or text.endswith("/"):
        raise ValueError("must be the path of a file, without '..' and without control characters")
    if re.fullmatch(FILE_PATTERN, text) is None:
        raise ValueError(
            "must have a name with `progress` in it and the ending .json or .jsonl: no other file may be read"
        )
    return text


def _silence(text: str) -> float:
    try:
        seconds = parse_duration(text).total_seconds()
    except ValueError as error:
        raise ValueError(f"must be a duration such as 30s: {error}") from error
    if seconds < _SILENCE_SECONDS:
        raise ValueError("must be a duration of 2m or more")
    return seconds


_READERS: Readers = {
    ANNOTATION_PROGRESS: ("progress", _progress),
    ANNOTATION_PROGRESS_STALL_AFTER: ("stall_after", _silence),
}


def report_audience(namespace: str, name: str) -> str:
    """The audience of a token with which pods may report for this TrainJob, and for no other."""
    return f"{GROUP}/{VERSION}/namespaces/{namespace}/trainjobs/{name}/status"


def report_path(namespace: str, name: str) -> str:
    """The path of the reports of this TrainJob on the status server."""
    return f"/apis/{report_audience(namespace, name)}"
