# SPDX-License-Identifier: Apache-2.0
"""What the annotations of a TrainJob and of its runtime say about its progress, and where training reports it.

An annotation of the TrainJob takes precedence over that of the runtime. A value that cannot be used is replaced by the
runtime's, or by the default.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from trainwright.api.times import parse_duration
from trainwright.api.trainer.v1alpha1.constants import (
    ANNOTATION_PROGRESS,
    ANNOTATION_PROGRESS_CONTAINER,
    ANNOTATION_PROGRESS_FILE,
    ANNOTATION_PROGRESS_INTERVAL,
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
DEFAULT_INTERVAL = 30.0
_PATH_BYTES = 255
_NAME_CHARACTERS = 63
_SECONDS = (10.0, 3600.0)
_SILENCE_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Declaration:
    """How a job reports its progress."""

    way: str = PROGRESS_PUSH
    """`push`, `file` or `none`. With `file`, reports that are pushed count as well."""
    file: str = DEFAULT_FILE
    """Absolute path in the container."""
    interval: float = DEFAULT_INTERVAL
    """Seconds between two reads of the file."""
    container: str = ""
    """The container that writes the file; empty: the one that trains."""
    stall_after: float | None = None
    """Seconds without a report after which the job counts as stalled; None: the manager's setting."""

    @property
    def reads_file(self) -> bool:
        """Whether the manager reads a file in a pod."""
        return self.way == PROGRESS_FILE


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


def _container(text: str) -> str:
    if not text or len(text) > _NAME_CHARACTERS:
        raise ValueError("must be the name of a container")
    return text


def _interval(text: str) -> float:
    low, high = _SECONDS
    seconds = _duration(text).total_seconds()
    if not low <= seconds <= high:
        raise ValueError("must be a duration from 10s to 1h")
    return seconds


def _silence(text: str) -> float:
    seconds = _duration(text).total_seconds()
    if seconds < _SILENCE_SECONDS:
        raise ValueError("must be a duration of 2m or more")
    return seconds


def _duration(text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise ValueError(f"must be a duration such as 30s: {error}") from error


_READERS: Readers = {
    ANNOTATION_PROGRESS: ("way", one_of(PROGRESS_PUSH, PROGRESS_FILE, PROGRESS_NONE)),
    ANNOTATION_PROGRESS_FILE: ("file", _path),
    ANNOTATION_PROGRESS_INTERVAL: ("interval", _interval),
    ANNOTATION_PROGRESS_CONTAINER: ("container", _container),
    ANNOTATION_PROGRESS_STALL_AFTER: ("stall_after", _silence),
}


def report_audience(namespace: str, name: str) -> str:
    """The audience of a token with which pods may report for this TrainJob, and for no other."""
    return f"{GROUP}/{VERSION}/namespaces/{namespace}/trainjobs/{name}/status"


def report_path(namespace: str, name: str) -> str:
    """The path of the reports of this TrainJob on the status server."""
    return f"/apis/{report_audience(namespace, name)}"
