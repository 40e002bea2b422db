# SPDX-License-Identifier: Apache-2.0
"""Reads the end of a file in a container, and says what came of it.

The command has no shell and no standard input. `tail` is tried first; where the image lacks it, Python. An admission
policy lets the manager run these two commands only (`config/overlays/progress-pull`), so they must change together.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from trainwright.controller.runtime import (
    BadRequest,
    Client,
    CommandTimeout,
    Forbidden,
    Invalid,
    KubernetesError,
    NotFound,
    OutputTooLarge,
    ServerError,
)

READ_BYTES = 65537
"""One byte more than the largest document, so that a larger one is noticed."""
SECONDS = 10.0
"""Longest time of one read."""
PYTHON = (
    "import sys\n"
    "with open(sys.argv[1],'rb') as f:\n"
    f" f.seek(max(0,f.seek(0,2)-{READ_BYTES}))\n"
    f" sys.stdout.buffer.write(f.read({READ_BYTES}))"
)
READERS: tuple[tuple[str, ...], ...] = (
    ("tail", "-c", str(READ_BYTES)),
    ("python3", "-I", "-S", "-c", PYTHON),
)
"""Commands to which the path is appended, the preferred one first."""
_LIMIT = 2 * READ_BYTES
_NOT_EXECUTABLE = (126, 127)
"""Exit codes of a shell, and of some container runtimes, for a program that does not exist or cannot be run."""
_NO_PROGRAM = re.compile(r"executable file not found|no such file or directory|not found", re.IGNORECASE)
_NO_FILE = re.compile(r"no such file or directory", re.IGNORECASE)
_SHOWN = 150


class Result(StrEnum):
    """What came of one look at the progress of a job. The label of a metric."""

    OK = "ok"
    STALE = "stale"
    """The report is old; it is shown."""
    MISSING = "missing"
    """There is no file."""
    EMPTY = "empty"
    PARTIAL = "partial"
    """A JSON object without its end: the file is being written."""
    CORRUPT = "corrupt"
    TOO_LARGE = "too_large"
    UNREADABLE = "unreadable"
    """The file cannot be read: a folder, no permission, no such container."""
    NO_READER = "no_reader"
    """The image has neither tail nor Python."""
    TIMEOUT = "timeout"
    """The command started and did not end."""
    UNREACHABLE = "unreachable"
    """The node or the API server does not answer."""
    NOT_READY = "not_ready"
    """There is no pod whose container runs."""
    GONE = "gone"
    """The pod was replaced."""
    FORBIDDEN = "forbidden"
    """A right is missing, or an admission policy refuses the command."""


@dataclass(frozen=True, slots=True)
class Place:
    """A container."""

    namespace: str
    pod: str
    container: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What a read found: the end of the file for `OK`, else the reason in `detail`."""

    result: Result
    data: bytes = b""
    detail: str = ""
    reader: int = 0
    """Index of the command that worked, to start with at the next read in this pod."""


async def read_file(client: Client, place: Place, path: str, reader: int = 0) -> Reading:
    """Read the last `READ_BYTES` bytes of a file, within `SECONDS` for each command. Errors become results."""
    for index, command in enumerate(READERS[reader:], reader):
        found = await _read(client, place, command, path)
        if found.result is not Result.NO_READER:
            return Reading(found.result, found.data, found.detail, index)
    programs = " nor ".join(command[0] for command in READERS)
    return Reading(Result.NO_READER, detail=f"the image has neither {programs}", reader=reader)


async def _read(client: Client, place: Place, command: tuple[str, ...], path: str) -> Reading:
    try:
        ended = await client.exec(
            place.pod, place.namespace, [*command, path], container=place.container, seconds=SECONDS, limit=_LIMIT
        )
    except KubernetesError as error:
        return Reading(_result_of(error, command[0]), detail=str(error))
    if ended.code == 0:
        return Reading(Result.OK, ended.stdout)
    if ended.code in _NOT_EXECUTABLE:
        return Reading(Result.NO_READER)
    if ended.code > 128:
        return Reading(Result.UNREACHABLE, detail=f"{command[0]} was ended by signal {ended.code - 128}")
    said = ended.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    shown = "".join(one if one.isprintable() else "?" for one in said[-_SHOWN:])
    return Reading(Result.MISSING if _NO_FILE.search(said) else Result.UNREADABLE, detail=shown)


def _result_of(error: KubernetesError, program: str) -> Result:
    match error:
        case NotFound():
            return Result.GONE
        case Forbidden() | Invalid():
            return Result.FORBIDDEN
        case CommandTimeout():
            return Result.TIMEOUT
        case BadRequest() | OutputTooLarge():
            return Result.UNREADABLE
        case ServerError() if _lacks(error.message, program):
            return Result.NO_READER
    return Result.UNREACHABLE


def _lacks(message: str, program: str) -> bool:
    """Whether a node says that it did not find the program. A container's name may hold that of the program."""
    named = re.search(rf"(?<![\w-]){re.escape(program)}(?![\w-])", message)
    return named is not None and _NO_PROGRAM.search(message) is not None
