# SPDX-License-Identifier: Apache-2.0
"""Reports the progress of a training, from inside the training code.

    from trainwright.progress import Reporter

    with Reporter(total=len(batches)) as progress:
        for step, batch in enumerate(batches, 1):
            progress.update(step=step, loss=train(batch))

Reports go to the server that the environment names (KUBEFLOW_TRAINER_SERVER_URL), to the file that it names
(TRAINWRIGHT_PROGRESS_FILE), or to both. Where it names a folder for the output of the training
(TRAINWRIGHT_OUTPUT_DIR), each value that is passed is kept in a file of lines there, progress.jsonl. Elsewhere, such as
on a laptop, nothing is written. One background thread sends and writes; nothing here ever delays a training step or
raises an exception into the training.

This file needs Python 3.9 and its standard library only, and a copy of it works: beside a training script, pasted into
one, or pasted into a function. For that, annotations of newer Python are quoted, and the text has no backslash, dollar
sign or backtick: the Kubeflow SDK sends functions through the here-document of a shell, which would change these.
"""

import atexit
import contextlib
import errno
import faulthandler
import json
import math
import os
import queue
import re
import signal
import stat
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

__all__ = [
    "Extreme",
    "Extremes",
    "ReadError",
    "Report",
    "Reporter",
    "TorchtuneLogger",
    "attempt",
    "extremes",
    "latest_checkpoint",
    "lightning_callback",
    "read",
    "transformers_callback",
]

SERVER_URL = "KUBEFLOW_TRAINER_SERVER_URL"
SERVER_CA = "KUBEFLOW_TRAINER_SERVER_CA_CERT"
SERVER_TOKEN = "KUBEFLOW_TRAINER_SERVER_TOKEN"  # the name of a variable that holds a path
FILE = "TRAINWRIGHT_PROGRESS_FILE"
FINAL = "TRAINWRIGHT_PROGRESS_FINAL"
"""Variable with the path of the container's termination message."""
OUTPUT_DIR = "TRAINWRIGHT_OUTPUT_DIR"
"""Variable with the folder of what the training makes."""
CURVE = "progress.jsonl"
"""The file there with each value."""
CURVE_POINTS = 100000
CURVE_BYTES = 52428800
"""Of a file with more than that, each two neighbours become one line."""
CHECKPOINT_DIR = "TRAINWRIGHT_CHECKPOINT_DIR"
RESUME_FROM = "TRAINWRIGHT_RESUME_FROM"
ON_STALL = "TRAINWRIGHT_ON_STALL"
ATTEMPTS = ("TRAINWRIGHT_ATTEMPT_BASE", "TRAINWRIGHT_ATTEMPT")
"""Variables whose sum is the attempt, from 0."""
CHECKPOINT_STEP = "checkpoint_step"
"""The metric with the step of the last checkpoint."""
LATEST = "latest"
"""The file in the folder of checkpoints that says which one is whole."""
EARLIER = 2
"""So many earlier checkpoints the file names as well, for the case that the last one is damaged."""
NOTED_FILES = 100
"""Of each checkpoint, so many files are noted and checked."""
LATEST_BYTES = 1048576
SMALL_BYTES = 65536
"""The content of files up to this size is checked, of others the size."""
DEFAULT_FILE = "/var/run/trainwright/progress.json"
DEFAULT_FINAL = "/dev/termination-log"

STATES = ("running", "completed", "failed")
FILE_BYTES = 65536
"""Largest document."""
FINAL_BYTES = 1024
"""Largest document in a termination message. All containers of a pod share 12 KiB there."""
METRICS = 256
CHARACTERS = 64
"""Limits of trainerStatus.metrics: entries, and characters of a name or a value."""

_RANKS = (
    "RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "SLURM_PROCID",
    "FLUX_TASK_RANK",
    "JAX_PROCESS_ID",
    "DMLC_TASK_ID",
)
_TIMEOUT = 5.0
_END_SECONDS = 2.0
_MAX_BACKOFF = 60.0
_MAX_RETRY_AFTER = 3600.0
_TOKEN_SECONDS = 60.0
_WARM_UP_STEPS = 5
_SMOOTHING_SECONDS = 60.0
_INT32 = 2147483647
_LINE_END = bytes([10])
_BATCH = 4096
"""So many values that wait to be written wake the thread."""
_WAITING = 65536
"""Of more than that, the oldest ones are not written: the disk or the server holds up the thread."""
_LINES = 1000
"""So many of the last lines are looked at."""
_TIME = re.compile(
    "([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.]([0-9]+))?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_NOT_FINITE = ("nan", "infinity", "-infinity", "inf", "-inf")
"""Numbers that JSON cannot write: they come as strings, in any case."""
_LARGEST = sys.float_info.max
_COUNTERS = 5
"""Metrics of a document that have keys of their own: step, epoch, their totals, loss."""
_LOWEST, _HIGHEST = "min", "max"
"""What the names of extremes end with. Their values are not plain numbers, so charts do not draw them as curves."""
_NUMBERS = ("numpy", "decimal", "fractions")
"""Modules whose values are in the memory of the CPU: to read one takes no time."""
_KEEP = object()
"""Tells the thread to write the values that wait, and nothing else."""
_RECENT = "recent_"
"""Before the end of the name, of the last minute or two."""
_RECENT_SECONDS = 60.0
_EXTREME = re.compile("(-?[0-9][0-9.e+-]*) (?:at step (-?[0-9][0-9.e+-]*)|so far|just now)")
_EXTREME_NAME = re.compile("(.+)[.](recent_)?(min|max)", re.DOTALL)


# --- The document -----------------------------------------------------------------------------------------------------


class ReadError(ValueError):
    """The text is not a progress document.

    The attribute reason is "empty" (no text, or nothing known in it), "partial" (a JSON object without its end),
    "corrupt" (no JSON object, not UTF-8, or a value of a wrong type) or "too large".
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class Report(NamedTuple):
    """One progress document, checked. What the document leaves out is None."""

    metrics: "dict[str, str]"
    """At most 256, names and values of 1 to 64 characters. Holds step, epoch, totals and loss as well."""
    percentage: "int | None" = None
    """0 to 100."""
    remaining_seconds: "int | None" = None
    time: "datetime | None" = None
    """When the training reported, with its time zone."""
    step: "float | None" = None
    total_steps: "float | None" = None
    epoch: "float | None" = None
    total_epochs: "float | None" = None
    loss: "float | None" = None
    state: "str | None" = None
    """One of STATES."""
    message: "str | None" = None
    rank: "int | None" = None
    cut: int = 0
    """How many names or values were too long, and how many metrics too many. They are shortened or left out."""

    def trainer_status(self) -> "dict[str, Any]":
        """The report as status.trainerStatus of a TrainJob."""
        status: dict[str, Any] = {}
        if self.percentage is not None:
            status["progressPercentage"] = self.percentage
        if self.remaining_seconds is not None:
            status["estimatedRemainingSeconds"] = self.remaining_seconds
        if self.metrics:
            status["metrics"] = [{"name": name, "value": value} for name, value in self.metrics.items()]
        if self.time is not None:
            status["lastUpdatedTime"] = self.time.astimezone(timezone.utc).isoformat()
        return status


def read(text: "str | bytes") -> Report:
    """Read a progress document: one JSON object, or JSON Lines, of which the last valid line counts.

    Of a longer text, only the last 64 KiB are looked at; they must be JSON Lines. Raises ReadError, and nothing else.
    """
    data = text if isinstance(text, bytes) else text[-FILE_BYTES - 1 :].encode("utf-8", "surrogatepass")
    whole = len(data) <= FILE_BYTES and (isinstance(text, bytes) or len(text) <= FILE_BYTES)
    if whole:
        try:
            return _report(data)
        except ReadError as error:
            first = error
    else:
        # The first line has lost its beginning.
        data = data[-FILE_BYTES - 1 :].partition(_LINE_END)[2]
        first = ReadError("too large", f"the document has more than {FILE_BYTES} bytes")
    objects = [line for line in data.split(_LINE_END) if line.strip().startswith(b"{") and line.rstrip().endswith(b"}")]
    # A bound on the time to read a file, whatever it holds.
    for line in reversed(objects[-_LINES:]):
        with contextlib.suppress(ReadError):
            return _report(line)
    raise first


def _report(data: bytes) -> Report:
    """Check one JSON object. Raises ReadError."""
    if not data.strip():
        raise ReadError("empty", "the document is empty")
    try:
        document = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ReadError("corrupt", "the document is not UTF-8") from None
    except RecursionError:
        raise ReadError("corrupt", "the document is nested too deeply") from None
    except ValueError as error:
        torn = data.lstrip().startswith(b"{") and (not data.rstrip().endswith(b"}") or _at_end(error))
        raise ReadError("partial" if torn else "corrupt", f"the document is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ReadError("corrupt", "the document is not a JSON object")
    inner = document.get("trainerStatus")
    if isinstance(inner, dict):
        document = {**document, **inner}
    try:
        report = _checked(document)
    except (TypeError, ValueError, OverflowError) as error:
        raise ReadError("corrupt", str(error)) from None
    if report == Report(metrics={}):
        raise ReadError("empty", "the document has none of the known keys")
    return report


class Extremes(NamedTuple):
    """The lowest and the highest value that a process of a training has passed for a metric, and at which steps.

    None: not known, or, of a step, not told.
    """

    lowest: "float | None" = None
    lowest_step: "float | None" = None
    highest: "float | None" = None
    highest_step: "float | None" = None


class Extreme(NamedTuple):
    """The metrics of a report, and what a Reporter has added to say extremes, by the name of the metric."""

    plain: "dict[str, str]"
    run: "dict[str, Extremes]"
    """Since the process began."""
    recent: "dict[str, Extremes]"
    """In the last minute or two, where these are others than those of the run."""


def extremes(metrics: "Mapping[str, str]") -> Extreme:
    """What the metrics of a report say.

    A Reporter sends reports seconds apart. A value that was passed in between, and is lower or higher than the last
    one, is told by a metric such as loss.min or loss.recent_max, whose value is "0.25 at step 12". Without steps it is
    "0.25 so far" or "0.25 just now".
    """
    found = Extreme(dict(metrics), {}, {})
    for name, text in metrics.items():
        named, said = _EXTREME_NAME.fullmatch(name), _EXTREME.fullmatch(text)
        if named is None or said is None or named[1] not in metrics:
            continue
        try:
            value, step = float(said[1]), float(said[2]) if said[2] else None
        except ValueError:
            continue
        del found.plain[name]
        those = found.recent if named[2] else found.run
        known = those.get(named[1], Extremes())
        if named[3] == _LOWEST:
            those[named[1]] = known._replace(lowest=value, lowest_step=step)
        else:
            those[named[1]] = known._replace(highest=value, highest_step=step)
    return found


def _at_end(error: ValueError) -> bool:
    """Whether the JSON was right as far as it went."""
    return isinstance(error, json.JSONDecodeError) and error.pos >= len(error.doc.rstrip())


def _checked(document: "dict[str, Any]") -> Report:
    percentage = _whole(document, "progressPercentage", 100)
    extras = {key: _number(document, key) for key in ("step", "totalSteps", "epoch", "totalEpochs", "loss")}
    metrics, cut = _metrics(document)
    given = len(metrics)
    for key, name in (
        ("step", "current_step"),
        ("totalSteps", "total_steps"),
        ("epoch", "current_epoch"),
        ("totalEpochs", "total_epochs"),
        ("loss", "loss"),
    ):
        if extras[key] is not None and name not in metrics:
            metrics[name] = _text(extras[key])
    # Of too many, the last ones of the list go.
    surplus = list(metrics)[min(given, METRICS - (len(metrics) - given)) : given]
    for name in surplus:
        del metrics[name]
    state = _string(document, "state")
    return Report(
        percentage=percentage,
        remaining_seconds=_whole(document, "estimatedRemainingSeconds", _INT32),
        metrics=metrics,
        time=_time(document),
        step=extras["step"],
        total_steps=extras["totalSteps"],
        epoch=extras["epoch"],
        total_epochs=extras["totalEpochs"],
        loss=extras["loss"],
        state=state if state in STATES else None,
        message=_clean((_string(document, "message") or "")[:256]) or None,
        rank=_whole(document, "rank", _INT32),
        cut=cut + len(surplus),
    )


def _metrics(document: "dict[str, Any]") -> "tuple[dict[str, str], int]":
    """The metrics by name, and how many names and values were cut."""
    given = document.get("metrics")
    if given is None:
        return {}, 0
    pairs: list[tuple[Any, Any]] = []
    if isinstance(given, dict):
        pairs.extend(given.items())
    elif isinstance(given, list) and all(isinstance(entry, dict) for entry in given):
        pairs.extend((entry.get("name"), entry.get("value")) for entry in given)
    else:
        raise TypeError("metrics: must be a map, or a list of objects with name and value")
    metrics: dict[str, str] = {}
    cut = 0
    for name, value in pairs:
        if not isinstance(name, str):
            raise TypeError("metrics: a name must be a string")
        if isinstance(value, (dict, list)):
            raise TypeError(f"metrics: the value of {name[:CHARACTERS]} must be a number or a string")
        text = "" if value is None else _text(value)
        if text.lower() in _NOT_FINITE:
            text = _text(float(text))
        cut += (len(name) > CHARACTERS) + (len(text) > CHARACTERS)
        if name and text:
            metrics[_clean(name[:CHARACTERS])] = _clean(text[:CHARACTERS])
    return metrics, cut


def _clean(text: str) -> str:
    """Text that can be encoded: JSON may hold one half of a character."""
    return text.encode("utf-8", "replace").decode()


def _text(value: object) -> str:
    """A value as the text of a metric. Numbers are doubles: the shortest text that reads as the same double."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and abs(value) <= 2**53:
        return str(int(value))
    number = float(value)  # type: ignore[arg-type]  # raises TypeError for other types
    if math.isfinite(number):
        return repr(number)
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _number(document: "dict[str, Any]", key: str) -> "float | None":
    value = document.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise TypeError(f"{key}: must be a number")
    if isinstance(value, str) and value.lower() not in _NOT_FINITE:
        raise ValueError(f"{key}: must be a number")
    return float(value) if isinstance(value, str) else value


def _whole(document: "dict[str, Any]", key: str, most: int) -> "int | None":
    value = _number(document, key)
    if value is None:
        return None
    if not 0 <= value <= most:
        raise ValueError(f"{key}: must be from 0 to {most}")
    return math.floor(value)


def _string(document: "dict[str, Any]", key: str) -> "str | None":
    value = document.get(key)
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{key}: must be a string")
    return value


def _time(document: "dict[str, Any]") -> "datetime | None":
    value = _string(document, "lastUpdatedTime")
    if value is None:
        return None
    found = _TIME.fullmatch(value)
    if found is None:
        raise ValueError("lastUpdatedTime: must be a time of RFC 3339 with its zone, such as 2026-01-31T12:00:00Z")
    day, clock, fraction, zone = found.groups()
    # What Python 3.9 can read: no Z, and fractions of six digits.
    zone = "+00:00" if zone in "Zz" else zone
    moment = datetime.fromisoformat(f"{day}T{clock}.{(fraction or '0')[:6]:0<6}{zone}")
    # Fails for times that have no year in UTC.
    return moment.astimezone(timezone.utc)


def _encode(document: "dict[str, Any]", limit: int) -> bytes:
    """The document as JSON, within the limit of bytes: metrics that do not fit are left out."""
    kept: dict[str, Any] = {}
    bare = {key: value for key, value in document.items() if key != "metrics"}
    size = len(json.dumps({**bare, "metrics": {}}, separators=(",", ":")))
    for name, value in document.get("metrics", {}).items():
        size += len(json.dumps({name: value}, separators=(",", ":"))) - 1
        if size > limit:
            break
        kept[name] = value
    return json.dumps({**bare, "metrics": kept} if kept else bare, separators=(",", ":")).encode()


# --- Where reports go -------------------------------------------------------------------------------------------------


class _RefusedError(Exception):
    """The server answered with another status than 200."""

    def __init__(self, status: int, retry_after: "float | None" = None) -> None:
        super().__init__(f"the server answered {status}")
        self.retry_after = retry_after


class _File:
    """A file, replaced by renaming, so that readers see a whole document or none."""

    def __init__(self, path: str) -> None:
        self.name = path

    def send(self, document: "dict[str, Any]", now: float, timeout: float) -> None:
        data = _encode(document, FILE_BYTES - 1) + _LINE_END
        folder, name = os.path.split(self.name)
        # Not one name for all: two processes that both believe to be rank 0 must not write into one file, nor two
        # reporters of one process, which may even have different copies of this module.
        temporary = os.path.join(folder, f".{name}.{os.getpid()}.{id(self)}")
        try:
            try:
                stream = open(temporary, "wb")
            except FileNotFoundError:
                os.makedirs(folder, exist_ok=True)
                stream = open(temporary, "wb")
            with stream:
                stream.write(data)
            os.replace(temporary, self.name)
        except BaseException:
            # It was not made, or the folder is out of reach: the first error says why.
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise


class CurveWriter:
    """The file of each value. One JSON object a line, of one of two forms:

        {"attempt": 1, "time": 1767225600.5, "total": 300, "epochs": null}
        {"time": 1767225600.5, "step": 12, "epoch": 1, "percentage": 4, "metrics": {"loss": 0.25}}

    The first begins what follows: a process, or other totals. Of the second, what is not known is left out. A line that
    stands for several has "count", "low" and "high" where a metric was lower or higher than the value, its last, and
    "not_finite", the names of those that were no finite number at least once.
    Lines are added in one write, so that a reader sees whole ones but for the last.
    """

    def __init__(self, path: str) -> None:
        self.name = path
        self._begin: dict[str, Any] | None = None
        self._points = -1
        """How many the file has; -1: not counted yet."""
        self._stride = 1
        self._open: list[dict[str, Any]] = []

    def add(self, points: "list[dict[str, Any]]", begin: "dict[str, Any]", *, last: bool) -> None:
        """Append the points; with the last ones also what is not full yet. Raises OSError.

        begin: the attempt and the totals, which are written where they differ from those before.
        """
        first = [{**begin, "time": points[0]["time"]}] if points and self._begin != begin else []
        points = _merged(points)
        if self._points < 0 and points:
            self._count()
        if self._stride > 1:
            points, self._open = _joined([*self._open, *points], self._stride)
            if last:
                points, self._open = [*points, *self._open], []
        if not points:
            return
        with open(self.name, "ab") as stream:
            stream.write(b"".join(map(_line, [*first, *points])))
            size = stream.tell()
        self._begin = begin
        self._points += len(points)
        if self._points > CURVE_POINTS or size > CURVE_BYTES:
            self._thin()

    def _count(self) -> None:
        """What an earlier attempt has left. It may have been killed within its last line."""
        self._points, self._stride, line = 0, 1, _LINE_END
        with contextlib.suppress(FileNotFoundError), open(self.name, "r+b") as stream:
            for line in stream:
                self._points += 1
                if self._points % 1000 == 2 and (known := _point(line)):
                    self._stride = max(self._stride, known.get("count", 1))
            if not line.endswith(_LINE_END):
                stream.write(_LINE_END)

    def _thin(self) -> None:
        """Join each two points that follow each other. A reader has the old file or the new one."""
        stride, points, temporary = self._stride * 2, 0, self.name + ".new"
        kept: list[dict[str, Any]] = []
        try:
            with open(self.name, "rb") as stream, open(temporary, "wb") as made:
                for line in stream:
                    known = _point(line)
                    if known is None:
                        continue
                    if "attempt" not in known:
                        full, kept = _joined([*kept, known], stride)
                    else:
                        full, kept = [*kept, known], []
                    made.write(b"".join(map(_line, full)))
                    points += len(full)
                made.write(b"".join(map(_line, kept)))
            os.replace(temporary, self.name)
        except BaseException:
            # A disk that is full has no room for both.
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        self._stride, self._points = stride, points + len(kept)


def _line(point: "dict[str, Any]") -> bytes:
    return json.dumps(point, separators=(",", ":")).encode() + _LINE_END


def _point(line: bytes) -> "dict[str, Any] | None":
    """None: the line is torn, or is none of ours."""
    with contextlib.suppress(ValueError):
        known = json.loads(line)
        if isinstance(known, dict) and ("attempt" in known or isinstance(known.get("metrics"), dict)):
            return known
    return None


def _merged(points: "list[dict[str, Any]]") -> "list[dict[str, Any]]":
    """One point for those in a row of one step that tell different metrics."""
    made: list[dict[str, Any]] = []
    for point in points:
        last = made[-1] if made else None
        if (
            last is not None
            and point.get("step") is not None
            and last.get("step") == point["step"]
            and not last["metrics"].keys() & point["metrics"].keys()
        ):
            made[-1] = {**last, **point, "metrics": {**last["metrics"], **point["metrics"]}}
        else:
            made.append(point)
    return made


def _joined(points: "list[dict[str, Any]]", stride: int) -> "tuple[list[dict[str, Any]], list[dict[str, Any]]]":
    """Points that each stand for as many as the stride says, and the last one if it does not yet."""
    made: list[dict[str, Any]] = []
    for point in points:
        last = made[-1] if made else None
        count = last.get("count", 1) + point.get("count", 1) if last is not None else stride + 1
        # Where the training fell back to an earlier step, another run begins.
        if last is None or count > stride or _before(point.get("step"), last.get("step")):
            made.append(point)
        else:
            made[-1] = _both(last, point, count)
    full = bool(made) and made[-1].get("count", 1) >= stride
    return (made, []) if full else (made[:-1], made[-1:])


def _before(step: Any, last: Any) -> bool:
    return isinstance(step, (int, float)) and isinstance(last, (int, float)) and step < last


def _both(first: "dict[str, Any]", second: "dict[str, Any]", count: int) -> "dict[str, Any]":
    made = {**first, **second, "metrics": {**first["metrics"], **second["metrics"]}, "count": count}
    for key, choose in (("low", min), ("high", max)):
        ends = {}
        for name, value in made["metrics"].items():
            told = [one.get(key, {}).get(name, one["metrics"].get(name)) for one in (first, second)]
            numbers = [one for one in told if isinstance(one, (int, float))]
            if numbers and choose(numbers) != value:
                ends[name] = choose(numbers)
        made.pop(key, None)
        if ends:
            made[key] = ends
    odd = {name for one in (first, second) for name, value in one["metrics"].items() if isinstance(value, str)}
    odd.update(first.get("not_finite", ()), second.get("not_finite", ()))
    if odd:
        made["not_finite"] = sorted(odd)
    return made


_leaving = threading.Lock()


def _leave(path: str, document: "dict[str, Any]", timeout: float) -> None:
    """Write the document into a termination message, after what others wrote there.

    In place: the path is a bind mount, and renaming a file onto it fails with EBUSY. Kubelets read the last 4 KiB.
    """
    data = _encode(document, FINAL_BYTES - 1) + _LINE_END
    # Reporters of one process take turns. With a time limit: a handler of SIGTERM may have interrupted the other one.
    if not _leaving.acquire(timeout=max(0.0, timeout)):
        raise TimeoutError(f"{path} is still being written by another reporter")
    try:
        _replace_report(path, data)
    finally:
        _leaving.release()


def _replace_report(path: str, data: bytes) -> None:
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+b") as stream:
        kept = [line for line in stream.read(FILE_BYTES).split(_LINE_END) if line.strip() and not _is_report(line)]
        stream.seek(0)
        stream.write(_LINE_END.join([*kept, data]))
        stream.truncate()


def _is_report(line: bytes) -> bool:
    try:
        _report(line)
    except ReadError:
        return False
    return True


class _Server:
    """The status server: HTTPS on one kept connection, never through a proxy."""

    def __init__(self, url: str, ca: str, token: str) -> None:
        from urllib.parse import urlsplit  # only pods with a server need it

        self.name = url
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{SERVER_URL}: {url} is not the URL of a server")
        self._tls = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._path = parts.path or "/"
        self._ca, self._token_path = ca, token
        self._token, self._token_read = "", -math.inf
        self._context: Any = None
        self._context_of: object = None
        self._connection: Any = None

    def send(self, document: "dict[str, Any]", now: float, timeout: float) -> None:
        """POST the document. Raises OSError, HTTPException, ValueError or _RefusedError."""
        import http.client  # tens of milliseconds, spent in the thread

        # The same limits as for a document that is read from a file.
        status = _report(_encode(document, FILE_BYTES)).trainer_status()
        body = json.dumps({"trainerStatus": status}).encode()
        refreshed = False
        while True:
            kept = self._connection is not None
            self._read_token(now)
            try:
                code, retry_after = self._post(body, timeout)
            except (OSError, http.client.HTTPException) as error:
                self.disconnect()
                # Servers close idle connections: once more on a new one. A timeout has used up the time.
                if kept and not _timed_out(error):
                    continue
                raise
            if code in (401, 403) and not refreshed:
                before, refreshed = self._token, True
                self._token_read = -math.inf
                self._read_token(now)
                if self._token != before:
                    continue
            if code != 200:
                raise _RefusedError(code, retry_after)
            return

    def _post(self, body: bytes, timeout: float) -> "tuple[int, float | None]":
        connection = self._connect(timeout)
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        connection.request("POST", self._path, body, headers)
        answer = connection.getresponse()
        if len(answer.read(FILE_BYTES)) == FILE_BYTES or answer.will_close:
            self.disconnect()
        return answer.status, _seconds(answer.getheader("Retry-After"))

    def _connect(self, timeout: float) -> Any:
        import http.client
        import ssl

        if self._connection is not None:
            self._connection.sock.settimeout(timeout)
            return self._connection
        if not self._tls:
            self._connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        else:
            state = os.stat(self._ca) if self._ca else None
            version = state and (state.st_mtime_ns, state.st_ino, state.st_size)
            if self._context is None or version != self._context_of:
                self._context = ssl.create_default_context(cafile=self._ca or None)
                self._context_of = version
            self._connection = http.client.HTTPSConnection(
                self._host, self._port, timeout=timeout, context=self._context
            )
        try:
            self._connection.connect()
        except ssl.SSLCertVerificationError:
            # The authority may have been exchanged without a change of the file that we see.
            self._context = None
            raise
        return self._connection

    def disconnect(self) -> None:
        """Close the connection; the next report makes a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _read_token(self, now: float) -> None:
        if self._token_path and now - self._token_read >= _TOKEN_SECONDS:
            with open(self._token_path, encoding="ascii") as stream:
                self._token = stream.read(FILE_BYTES).strip()
            self._token_read = now


def _timed_out(error: Exception) -> bool:
    import socket

    return isinstance(error, socket.timeout)  # another class than TimeoutError before Python 3.10


def _seconds(value: "str | None") -> "float | None":
    """A Retry-After header in seconds; None: there is none, or it is not understood."""
    if value is None:
        return None
    try:
        return min(_MAX_RETRY_AFTER, max(0.0, float(value)))
    except ValueError:
        pass
    import email.utils

    try:
        moment = email.utils.parsedate_to_datetime(value)
        return min(_MAX_RETRY_AFTER, max(0.0, moment.timestamp() - time.time()))
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


class _Channel:
    """One destination, with the newest document that it has not got yet, and its pause after a failure."""

    def __init__(self, destination: "_File | _Server", every: float, warn: Any) -> None:
        self._destination = destination
        self._every = every
        self._warn = warn
        self._failures = 0
        self._next = -math.inf
        self._pending: dict[str, Any] | None = None
        self.is_remote = isinstance(destination, _Server)

    @property
    def fails(self) -> bool:
        return self._failures > 0

    def offer(self, document: "dict[str, Any]") -> None:
        self._pending = document

    def close(self) -> None:
        if isinstance(self._destination, _Server):
            self._destination.disconnect()

    def flush(self, now: float, timeout: float = _TIMEOUT, *, last: bool = False) -> None:
        """Send what is pending, unless the channel pauses; the last report even then. Never raises."""
        document = self._pending
        if document is None or (now < self._next and not last):
            return
        try:
            self._destination.send(document, now, timeout)
        except Exception as error:  # nothing may get into the training; it is warned of
            self._failures += 1
            pause = min(_MAX_BACKOFF, self._every * 2 ** min(self._failures - 1, 10))
            wanted = error.retry_after if isinstance(error, _RefusedError) else None
            self._next = now + max(pause, wanted or 0.0)
            name = self._destination.name
            self._warn(name, f"no progress report to {name}: {str(error) or type(error).__name__}; trying again")
        else:
            self._failures = 0
            self._next = -math.inf
            if self._pending is document:
                self._pending = None


# --- The writer -------------------------------------------------------------------------------------------------------


def _show_stacks(environ: "Mapping[str, str]") -> None:
    """At SIGTERM, print where each thread is, if ranks that stand still are restarted: their last lines are kept.

    It is done without the interpreter, so also by a rank that hangs in a lock or in a library.
    """
    if environ.get(ON_STALL) != "restart" or threading.current_thread() is not threading.main_thread():
        return
    # Windows, or a standard error without a descriptor: there is nothing to print to.
    with contextlib.suppress(AttributeError, OSError, RuntimeError, ValueError):
        faulthandler.register(signal.SIGTERM, chain=True)


def _rank(environ: "Mapping[str, str]") -> int:
    """The rank of this process among all of the job, from the variables of launchers; 0 if there are none."""
    for name in _RANKS:
        value = environ.get(name, "").strip()
        if value.isdecimal():
            return int(value)
    node, local = environ.get("PET_NODE_RANK", ""), environ.get("LOCAL_RANK", "")
    return 1 if any(value.strip("0 ") for value in (node, local)) else 0


_Point = tuple[Any, Any, Any, Any, float, Any, Any]
"""Where the training is: step, epoch, percentage, time to go, time; and what was passed there: loss, other metrics."""


class _Pace:
    """Seconds for one step of this process, smoothed. The first steps are left out: they load and compile."""

    def __init__(self, warm_up: int) -> None:
        self._warm_up = warm_up
        self._first: float | None = None
        self._last: tuple[float, float] | None = None
        self._seconds: float | None = None

    def seconds(self, first: float, step: float, at: float) -> "float | None":
        """Take in the step that was reached, and when; and the first step of this process."""
        last = self._last
        if self._first is None or step < (last[0] if last else self._first):
            # At the start, and after a fall back to an earlier step.
            self._first = min(first, step) if self._first is None else step
            self._last = last = None
        if last is None:
            if step - self._first >= self._warm_up:
                self._last = (step, at)
            return self._seconds
        done, elapsed = step - last[0], at - last[1]
        if done > 0 and elapsed >= 0:
            weight = 1.0 if self._seconds is None else 1.0 - math.exp(-elapsed / _SMOOTHING_SECONDS)
            self._seconds = (self._seconds or 0.0) + weight * (elapsed / done - (self._seconds or 0.0))
            self._last = (step, at)
        return self._seconds


class Reporter:
    """Reports the progress of one training.

    total: number of steps, if it is known.
    every: seconds between two reports.
    epochs: number of epochs, if it is known.
    mean: names whose mean since the last report is sent, such as ("loss",), instead of the value that was passed last.
    rank: of this process among all of the job; only rank 0 reports. Otherwise the variables of the launcher say it.
    push: False leaves the server out.

    Use it as a context manager: then the last report says "completed" or "failed". Wrong values raise nothing; the
    logger trainwright.progress warns of each once.
    """

    _clock = staticmethod(time.monotonic)

    def __init__(
        self,
        total: "float | None" = None,
        every: float = 5.0,
        epochs: "float | None" = None,
        *,
        mean: "Collection[str]" = (),
        rank: "int | None" = None,
        push: bool = True,
    ) -> None:
        self.total = total
        """Number of steps. May be set later, once it is known."""
        self.epochs = epochs
        self._warned: set[str] = set()
        self._active = False
        self._closing = False
        self._end: tuple[str, str] | None = None
        self._mean = frozenset((mean,) if isinstance(mean, str) else mean)
        # What the training passed and the thread has not taken yet.
        self._points: deque[_Point] = deque(maxlen=_WAITING)
        # By the thread alone.
        self._losses: dict[str, _Passed] = {}
        self._values: dict[str, _Passed] = {}
        self._curve: CurveWriter | None = None
        self._first: tuple[Any, Any] | None = None
        self._latest: _Point = (None, None, None, None, 0.0, None, None)
        # Used by the thread, and by whoever closes the reporter while the thread waits for the server.
        self._documents = threading.Lock()
        self._taken: object = self._latest
        self._steps, self._epochs = _Pace(_WARM_UP_STEPS), _Pace(0)
        self._channels: list[_Channel] = []
        self._final = self._checkpoint = ""
        self._rank = -1
        self._sending = self._left = False
        self._wake: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._handler = self._on_sigterm
        self._previous: Any = None
        self._last_error = getattr(sys, "last_value", None)
        try:
            self._every = max(0.1, float(every))
            self._rank = _rank(os.environ) if rank is None else int(rank)
            if self._rank == 0:
                self._open(os.environ, push=push)
            # After our own handler, which it calls.
            _show_stacks(os.environ)
        except Exception as error:  # the training goes on without reports
            self._warn("start", f"progress is not reported: {error}")

    def _open(self, environ: "Mapping[str, str]", *, push: bool) -> None:
        url, path = environ.get(SERVER_URL, "") if push else "", environ.get(FILE, "")
        self._final = environ.get(FINAL, "")
        # Processes that mpirun starts through ssh do not see the variables of the container.
        if not path and not environ.get(SERVER_URL) and os.path.isdir(os.path.dirname(DEFAULT_FILE)):
            path = DEFAULT_FILE
            if not self._final and os.path.exists(DEFAULT_FINAL):
                self._final = DEFAULT_FINAL
        destinations: list[Any] = []
        if path:
            destinations.append(_File(path))
        if url:
            try:
                destinations.append(_Server(url, environ.get(SERVER_CA, ""), environ.get(SERVER_TOKEN, "")))
            except ValueError as error:
                self._warn("server", str(error))
        self._channels = [_Channel(destination, self._every, self._warn) for destination in destinations]
        folder = environ.get(OUTPUT_DIR, "")
        if folder:
            self._curve = CurveWriter(os.path.join(folder, CURVE))
        elif not destinations:
            return
        self._active = True
        _open_reporters.add(self)
        atexit.register(self._at_exit)
        self._hook()
        self._start()

    def _start(self) -> None:
        threading.Thread(target=self._run, name="trainwright-progress", daemon=True).start()

    # What the training calls

    def update(
        self,
        step: Any = None,
        loss: Any = None,
        epoch: Any = None,
        metrics: "Mapping[str, Any] | None" = None,
        eta: Any = None,
        percentage: Any = None,
    ) -> None:
        """Note where the training is. Takes about a microsecond: it keeps what is passed, and sends nothing.

        What is left out keeps its value.

        step: counted from 1, so that it is the total at the end.
        loss, metrics: the value that was passed last is sent, and what the lowest and the highest one were; None takes
        a metric out. A tensor is copied, which on a GPU takes some microseconds more, and read by the background
        thread.
        eta: seconds to go; otherwise it is computed from the time of the steps.
        percentage: otherwise it is computed from steps or epochs.
        """
        if not self._active:
            return
        try:
            before = self._latest
            if type(loss) is not float:
                loss = _held(loss)
            named = metrics and [
                (name, value if type(value) is float else _held(value)) for name, value in metrics.items()
            ]
            latest = (
                before[0] if step is None else step,
                before[1] if epoch is None else epoch,
                before[2] if percentage is None else percentage,
                before[3] if eta is None else eta,
                self._clock(),
                loss,
                named,
            )
            if loss is not None or named:
                points = self._points
                points.append(latest)
                if len(points) == _BATCH:
                    self._wake.put(_KEEP)
            self._latest = latest
            first = self._first
            if first is None:
                self._first = (step, epoch)
                self._wake.put(None)
            elif (first[0] is None and step is not None) or (first[1] is None and epoch is not None):
                self._first = (step if first[0] is None else first[0], epoch if first[1] is None else first[1])
        except Exception as error:  # the training goes on
            self._warn("update", f"a call of update was left out: {error!r}")

    def checkpoint(self, path: Any, step: Any = None) -> None:
        """Note that a checkpoint is whole, so that the next attempt begins from it: call it after it is written.

        Rank 0 alone notes it. It waits until the checkpoint is on the disk, since a node that loses its power loses the
        rest, and writes a small file into the folder of checkpoints; without that folder, it is only reported. The
        report is sent at once, within 2 seconds, since the training may fail right after it. Raises nothing: a warning
        says what is wrong, and the next attempt begins from the checkpoint before.

        path: of the file or folder, or an address.
        step: that the checkpoint holds.
        """
        if self._rank != 0:
            return
        try:
            number = self._plain(step, "the step of a checkpoint")
            folder = os.environ.get(CHECKPOINT_DIR, "")
            if folder and "://" not in folder:
                _note_checkpoint(folder, os.fspath(path), number)
            if number is not None:
                self.update(metrics={CHECKPOINT_STEP: str(number)})  # of texts, the last one counts
            self._checkpoint = os.fspath(path)
            self._send_now()
        except Exception as error:  # the training goes on, and may write a checkpoint again
            self._warn("checkpoint", f"a checkpoint is not noted: {error}")

    def _send_now(self) -> None:
        """Send what is new, and wait for it. Not while a destination fails: a training must not wait each time."""
        if not self._active or any(channel.fails for channel in self._channels):
            return
        done: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._wake.put(done)
        with contextlib.suppress(queue.Empty):
            done.get(timeout=_END_SECONDS)

    def close(self, state: str = "completed") -> None:
        """Send the last report, for at most 2 seconds: "completed" (100 %), "failed", or "running" to leave it open."""
        self._close(state, "")

    def __enter__(self) -> "Reporter":
        return self

    def __exit__(self, kind: object, error: "BaseException | None", trace: object) -> None:
        if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
            self._close("completed", "")
        else:
            self._close("failed", type(error).__name__)

    def silence(self) -> None:
        """Report nothing more, not even an end."""
        self._active = False

    # The end

    def _close(self, state: str, message: str) -> None:
        if not self._active or self._closing:
            return
        self._closing = True
        if state not in STATES:
            self._warn("state", f"{state!r} is not a state; use one of {', '.join(STATES)}")
            state = "running"
        self._end = (state, message[:CHARACTERS])
        self._finish()
        self._active = False
        self._wake.put(None)
        _open_reporters.discard(self)
        atexit.unregister(self._at_exit)
        self._unhook()

    def _finish(self) -> None:
        """Send once more, within 2 seconds, and leave the termination message."""
        if self._first is None and (self._end is None or self._end[0] == "running"):
            return  # nothing was reported, and nothing is said now
        deadline = time.monotonic() + _END_SECONDS
        done: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._left = False
        self._wake.put(done)
        while True:
            rest = deadline - time.monotonic()
            try:
                done.get(timeout=max(0.0, min(0.05, rest)))
            except queue.Empty:
                # While the thread waits for the server, the file does not wait for the thread.
                if self._sending and not self._left:
                    self._write(rest)
                if rest > 0:
                    continue
            return

    def _at_exit(self) -> None:
        # An interpreter that ends because of an exception leaves it here. It leaves no trace of sys.exit(1), so only
        # close() and the context manager say "completed".
        error = getattr(sys, "last_value", None)
        if error is not None and error is not self._last_error:
            self._close("failed", type(error).__name__)
        else:
            self._close("running", "")

    def _hook(self) -> None:
        """Put our handler of SIGTERM before the one that is there. Possible in the main thread only."""
        if threading.current_thread() is not threading.main_thread():
            return
        previous = signal.getsignal(signal.SIGTERM)
        # None: a handler that Python did not install and could not call.
        if previous is not None:
            self._previous = previous
            signal.signal(signal.SIGTERM, self._handler)

    def _unhook(self) -> None:
        here = threading.current_thread() is threading.main_thread()
        if here and self._previous is not None and signal.getsignal(signal.SIGTERM) == self._handler:
            signal.signal(signal.SIGTERM, self._previous)

    def _on_sigterm(self, number: int, frame: Any) -> None:
        """Send what is known, then do what would have been done without us. The training may well go on."""
        if self._active and not self._closing:
            self._finish()
        previous = self._previous
        if callable(previous):
            previous(number, frame)
        elif previous == signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            # Still here: the first process of a container is not ended by a signal without a handler.
            signal.signal(number, self._handler)

    # The thread

    def _run(self) -> None:
        due = time.monotonic() + self._every
        while self._active:
            try:
                ordered = self._wake.get(timeout=max(0.0, due - time.monotonic()))
            except queue.Empty:
                ordered = None
            try:
                if ordered is _KEEP:
                    with self._documents:
                        self._keep()
                    continue
                self._tick(last=ordered is not None)
            except Exception as error:  # a report is lost, the next one may work
                self._warn("thread", f"a progress report was left out: {error!r}")
            due = time.monotonic() + self._every
            if ordered is not None and ordered is not _KEEP:
                ordered.put(None)
        for channel in self._channels:
            channel.close()

    def _tick(self, *, last: bool = False) -> None:
        """Send what is new. The last report goes out whatever failed before, and to the termination message."""
        timeout = _END_SECONDS if last or self._closing else _TIMEOUT
        if last:
            self._write(timeout)
        elif self._first is None:
            return
        else:
            with self._documents:
                self._take(again=False)
                self._flush(remote=False, timeout=timeout)
        self._sending = True
        try:
            self._flush(remote=True, timeout=timeout, last=last)
        finally:
            self._sending = False

    def _flush(self, *, remote: bool, timeout: float, last: bool = False) -> None:
        for channel in self._channels:
            if channel.is_remote == remote:
                channel.flush(self._clock(), timeout, last=last)

    def _write(self, timeout: float) -> None:
        """Write the last document into the file and the termination message."""
        if not self._documents.acquire(timeout=max(0.0, timeout)):
            return
        try:
            document = self._take(again=True)
            self._flush(remote=False, timeout=timeout, last=True)
            if self._final and document is not None:
                _leave(self._final, document, timeout)
        except Exception as error:  # the training, or its end, goes on
            self._warn("final", f"the last progress report was left out: {error!r}")
        finally:
            self._left = True
            self._documents.release()

    def _keep(self, *, last: bool = False) -> None:
        """Take the values that wait, and write them into the file of each value."""
        waiting = self._points
        taken = [waiting.popleft() for _ in range(len(waiting))]
        if not taken and not last:
            return
        now, shift = self._clock(), time.time() - self._clock()
        kept: list[dict[str, Any]] = []
        for point in _read_tensors(taken):
            step, numbers = self._plain(point[0]), dict[str, Any]()
            loss, named = point[5:]
            if loss is not None and (number := self._plain(loss, "loss")) is not None:
                self._take_in(self._losses, "loss", number, step, now, numbers)
            for name, value in named or ():
                self._take_in(self._values, name, value, step, now, numbers)
            if numbers and self._curve is not None:
                kept.append(self._kept(point, shift, numbers))
        if self._curve is not None:
            try:
                total, epochs = self._plain(self.total), self._plain(self.epochs)
                begin = {
                    "attempt": attempt(),
                    "total": total if _usable(total) else None,
                    "epochs": epochs if _usable(epochs) else None,
                }
                self._curve.add(kept, begin, last=last)
            except Exception as error:  # these values are not in the file, but in the reports
                self._warn("curve", f"values of the training are not kept in {self._curve.name}: {error}")

    def _take_in(
        self, passed: "dict[str, _Passed]", name: Any, value: Any, step: Any, now: float, numbers: "dict[str, Any]"
    ) -> None:
        """Take in one value, and add it to the numbers of its point."""
        known = passed.get(name)
        if value is None:
            if known is not None:
                del passed[name]
            return
        if type(value) is not float and not isinstance(value, str):
            value = self._plain(value, name)
            if value is None:
                return
        if known is None:
            if len(passed) >= METRICS:
                return
            known = passed[name] = _Passed()
        known.take(value, step, now, is_mean=name in self._mean)
        if not isinstance(value, str) and name:
            numbers[str(name)[:CHARACTERS]] = _json(value)

    def _kept(self, point: "_Point", shift: float, numbers: "dict[str, Any]") -> "dict[str, Any]":
        step, epoch, percentage = (_json(self._plain(one)) for one in point[:3])
        kept = {"time": round(point[4] + shift, 3), "step": step, "epoch": epoch, "percentage": percentage}
        return {**{key: value for key, value in kept.items() if value is not None}, "metrics": numbers}

    def _take(self, *, again: bool) -> "dict[str, Any] | None":
        """Offer a document to the channels: if there is something new, or in any case."""
        latest = self._latest
        if latest is self._taken and not again:
            return None
        self._keep(last=again)
        document = self._document(latest)
        self._taken = latest
        for channel in self._channels:
            channel.offer(document)
        return document

    def _document(self, latest: "_Point") -> "dict[str, Any]":
        """The progress document of now; section 4.1 of its description is docs/users/progress.md."""
        now = self._clock()
        at = latest[4] if self._first is not None else now
        first = self._first or (None, None)
        step, epoch, given, eta = (self._plain(value) for value in latest[:4])
        total, epochs = self._plain(self.total), self._plain(self.epochs)
        state, message = self._end or ("running", "")
        rest = None
        if _usable(total) and step is not None:
            rest = self._rest(self._steps, first[0], step, total, at)
            done: float | None = step / total
        elif _usable(epochs) and epoch is not None:
            rest = self._rest(self._epochs, first[1], epoch, epochs, at)
            done = epoch / epochs
        else:
            done = None
        percentage = given if given is not None else None if done is None else done * 100.0
        if percentage is not None:
            # Rounding errors aside: 29 of 100 steps are 28.999999999999996 %.
            percentage = 0 if math.isnan(percentage) else math.floor(min(99.0, max(0.0, percentage + 1e-9)))
        if state == "completed":
            percentage, eta, rest = 100, 0, 0
        elif state == "failed":
            eta = rest = None
        remaining = eta if eta is not None else rest
        moment = datetime.now(timezone.utc) - timedelta(seconds=max(0.0, now - at))
        if self._end is not None:
            moment = datetime.now(timezone.utc)
        told = [(str(name)[:CHARACTERS], known) for name, known in self._values.items() if name]
        # A termination message keeps the first metrics: an attempt is judged by its last checkpoint.
        told.sort(key=lambda one: one[0] != CHECKPOINT_STEP)
        metrics = {name: known.tell(step) for name, known in told}
        losses = [*self._losses.items()]
        loss = losses[0][1].tell(step) if losses else None
        _add_extremes(metrics, [*losses, *told])
        document = {
            "version": 1,
            "state": state,
            "message": message or None,
            "rank": 0,
            "checkpoint": self._checkpoint or None,
            "progressPercentage": percentage,
            "estimatedRemainingSeconds": _duration(remaining),
            "lastUpdatedTime": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "step": _json(step),
            "totalSteps": _json(total) if _usable(total) else None,
            "epoch": _json(epoch),
            "totalEpochs": _json(epochs) if _usable(epochs) else None,
            "loss": loss,
            "metrics": metrics,
        }
        return {key: value for key, value in document.items() if value is not None}

    def _rest(self, pace: _Pace, first: Any, here: float, total: float, at: float) -> "float | None":
        begin = self._plain(first)
        seconds = pace.seconds(here if begin is None else begin, here, at)
        return None if seconds is None else max(0.0, total - here) * seconds

    def _plain(self, value: Any, name: str = "progress") -> Any:
        """A value as a Python number; None if it is none. Reads tensors, which may wait for their device."""
        if value is None or type(value) is float or type(value) is int:
            return value
        try:
            value = value.item() if hasattr(value, "item") else value
            return int(value) if isinstance(value, (int, bool)) else float(value)
        except Exception as error:  # whatever a tensor raises
            self._warn(f"value of {name}", f"{name} of type {type(value).__name__} is not reported: {error}")
            return None

    def _warn(self, about: str, text: str) -> None:
        if about not in self._warned and len(self._warned) < 32:
            self._warned.add(about)
            import logging  # a fourth of the time of our import

            logging.getLogger("trainwright.progress").warning("%s", text)


def _widened(known: Extremes, value: "float | None", step: "float | None") -> Extremes:
    if value is None or not -_LARGEST <= value <= _LARGEST:
        return known
    if known.lowest is None or value < known.lowest:
        known = known._replace(lowest=value, lowest_step=step)
    if known.highest is None or value > known.highest:
        known = known._replace(highest=value, highest_step=step)
    return known


class _Passed:
    """What the thread knows of a metric."""

    __slots__ = ("_count", "_last", "_mean", "_rotated", "_windows", "run")

    def __init__(self) -> None:
        self._last: Any = None
        self._mean, self._count = 0.0, 0
        self.run = Extremes()
        # Of this minute, and of the one before.
        self._windows = (Extremes(), Extremes())
        self._rotated = -math.inf

    def take(self, value: Any, step: Any, now: float, *, is_mean: bool) -> None:
        if is_mean and not isinstance(value, str):
            self._count += 1
            # A running mean keeps equal values exactly as they are; a sum would round them.
            self._mean = value if self._count == 1 else self._mean + (value - self._mean) / self._count
            return
        self._last = value
        if isinstance(value, str):
            return
        if now - self._rotated >= _RECENT_SECONDS:
            self._windows, self._rotated = (Extremes(), self._windows[0]), now
        self.run = _widened(self.run, value, step)
        self._windows = (_widened(self._windows[0], value, step), self._windows[1])

    def tell(self, step: "float | None") -> Any:
        """What is sent: the last value, or the mean since it was sent last."""
        if self._count:
            self._last, self._count = self._mean, 0
            self.run = _widened(self.run, self._last, step)
        return self._last[:CHARACTERS] if isinstance(self._last, str) else _json(self._last)

    @property
    def is_text(self) -> bool:
        return isinstance(self._last, str)

    def extremes(self) -> "list[tuple[str, float | None, float | None]]":
        """What is not the last value: the end of the name, the value, and its step."""
        new, old = self._windows
        recent = _widened(_widened(new, old.lowest, old.lowest_step), old.highest, old.highest_step)
        found = [(_LOWEST, *self.run[:2]), (_HIGHEST, *self.run[2:])]
        found += [
            (_RECENT + end, *here)
            for end, here, ever in ((_LOWEST, recent[:2], self.run[:2]), (_HIGHEST, recent[2:], self.run[2:]))
            if here != ever
        ]
        return [one for one in found if one[1] is not None and one[1] != self._last]


def _add_extremes(metrics: "dict[str, Any]", told: "list[tuple[str, _Passed]]") -> None:
    """Say the extremes that the last values do not say, after all else, since what is too much is cut there."""
    for name, known in told:
        if known.is_text:
            continue
        for end, value, step in known.extremes():
            named = name + "." + end
            if named not in metrics and len(named) <= CHARACTERS and len(metrics) < METRICS - _COUNTERS:
                when = "just now" if _RECENT in end else "so far"
                metrics[named] = _text(value) + " " + (when if step is None else "at step " + _text(step))


def _held(value: Any) -> Any:
    """The value as it is now: a tensor may be changed in place, and holds all that it was computed from."""
    kind = type(value)
    if value is None or kind is int or kind is str:
        return value
    if isinstance(value, (float, int)) or kind.__module__ in _NUMBERS or getattr(value, "is_cpu", False) is True:
        try:
            item = getattr(value, "item", None)
            return value if item is None else item()
        except Exception:  # whatever a tensor raises; the thread warns of it
            return value
    detach = getattr(value, "detach", None)
    return value if detach is None else detach().clone()


def _read_tensors(points: "list[_Point]") -> "list[_Point]":
    """The points with PyTorch's tensors as numbers: all of one device at once, since each read waits for the device."""
    torch = sys.modules.get("torch")
    of_type = getattr(torch, "Tensor", None)
    if torch is None or of_type is None:
        return points
    groups: dict[Any, list[Any]] = {}
    known: dict[int, Any] = {}
    with contextlib.suppress(Exception):  # then each is read by itself, and warned of
        for *_, loss, named in points:
            for value in (loss, *(value for _, value in named or ())):
                if isinstance(value, of_type) and value.numel() == 1:
                    groups.setdefault((value.device, value.dtype), []).append(value)
        for group in groups.values():
            numbers = torch.stack([value.reshape(()) for value in group]).tolist()
            known.update(zip(map(id, group), numbers))
    if not known:
        return points
    made: list[_Point] = []
    for step, epoch, percentage, eta, moment, loss, named in points:
        read = named and [(name, known.get(id(value), value)) for name, value in named]
        made.append((step, epoch, percentage, eta, moment, known.get(id(loss), loss), read))
    return made


def _usable(total: "float | None") -> bool:
    return total is not None and math.isfinite(total) and total > 0


def _json(value: Any) -> Any:
    """A number as JSON has it: what it has no number for is a string."""
    if value is None or isinstance(value, str) or (isinstance(value, int) and abs(value) <= 2**53):
        return value
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    return number if math.isfinite(number) else _text(number)


def _duration(seconds: "float | None") -> "int | None":
    if seconds is None or math.isnan(seconds):
        return None
    return min(_INT32, math.ceil(max(0.0, min(seconds, float(_INT32)))))


_open_reporters: "weakref.WeakSet[Reporter]" = weakref.WeakSet()


def _silence() -> None:
    """A forked child has no thread, and shares the parent's connection: it says nothing."""
    for reporter in list(_open_reporters):
        reporter.silence()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_silence)


# --- Checkpoints ------------------------------------------------------------------------------------------------------


def attempt() -> int:
    """The number of the attempt that this process belongs to, from 1, as the record of the job counts them.

    1 outside a job that recovers.
    """
    texts = [os.environ.get(name, "") for name in ATTEMPTS]
    return 1 + sum(int(text) for text in texts if text.isascii() and text.isdigit())


def latest_checkpoint() -> "str | None":
    """The path of the last whole checkpoint, or where the first attempt begins from; None: begin at the start.

    It reads the file that Reporter.checkpoint has written. A checkpoint that has changed since it was noted is damaged:
    the one before takes its place, and the logger trainwright.progress warns of it. Never raises.
    """
    try:
        folder = os.environ.get(CHECKPOINT_DIR, "")
        for note in _notes(folder) if folder else []:
            path = note["path"]
            found = path if "://" in path else os.path.join(folder, path)
            damage = "" if "://" in path else _damage(found, note.get("files"))
            if not damage:
                return found
            import logging

            logging.getLogger("trainwright.progress").warning("checkpoint %s is passed over: %s", found, damage)
        start = os.environ.get(RESUME_FROM, "")
        return start if start and ("://" in start or os.path.exists(start)) else None
    except Exception:  # whatever a file system raises: the training begins at the start
        return None


def _notes(folder: str) -> "list[dict[str, Any]]":
    """What the file says of the last checkpoint and of those before, the newest first."""
    known = _latest(folder)
    earlier = known.get("earlier")
    notes = [known, *(earlier if isinstance(earlier, list) else [])]
    return [note for note in notes if isinstance(note, dict) and isinstance(note.get("path"), str) and note["path"]]


def _content(path: str) -> "dict[str, list[Any]]":
    """Of each file of a checkpoint its size, its number in the file system, and for a small one what it holds."""
    names = [""]
    if os.path.isdir(path):
        found = (os.path.join(folder, name) for folder, _, files in os.walk(path) for name in files)
        names = sorted(os.path.relpath(name, path) for name in found)
    files = {name: _facts(os.path.join(path, name) if name else path) for name in names[:NOTED_FILES]}
    return {name: facts for name, facts in files.items() if facts is not None}


def _facts(path: str) -> "list[Any] | None":
    """None: it is no file, or cannot be read."""
    try:
        known = os.stat(path)
        if not stat.S_ISREG(known.st_mode):
            return None
        digest = ""
        if known.st_size <= SMALL_BYTES:
            import hashlib  # which others do not need

            with open(path, "rb") as stream:
                digest = hashlib.sha256(stream.read()).hexdigest()
    except OSError:
        return None
    return [known.st_size, known.st_ino, digest]


def _damage(path: str, files: Any) -> str:
    """What is wrong with a checkpoint, compared with what was noted; empty: nothing is known to be."""
    if not os.path.exists(path):
        return "it does not exist"
    for name, noted in files.items() if isinstance(files, dict) else ():
        if not isinstance(noted, list) or len(noted) != 3:
            continue  # the file was edited by hand
        size, number, digest = noted
        what, found = f"its file {name}" if name else "it", _facts(os.path.join(path, name) if name else path)
        if found is None:
            return f"{what} cannot be read"
        # Another file was renamed to its place since, as by a training that ended before it noted the next one.
        if found[1] == number and found[0] != size:
            return f"{what} has {found[0]} bytes, and had {size} when it was noted"
        if found[1] == number and found[2] != digest:
            return f"{what} does not hold what it held when it was noted"
    return ""


def _latest(folder: str) -> "dict[str, Any]":
    """What the file says; nothing if it is missing or torn. Raises OSError if the folder is out of reach."""
    try:
        with open(os.path.join(folder, LATEST), "rb") as stream:
            known = json.loads(stream.read(LATEST_BYTES))
    except (FileNotFoundError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _note_checkpoint(folder: str, path: str, step: "float | None") -> None:
    """Write the file, whole or not at all. Raises OSError; ValueError if a later attempt has written it."""
    number, notes = attempt(), _notes(folder)
    if notes and isinstance(notes[0].get("attempt"), int) and notes[0]["attempt"] > number:
        later = notes[0]["attempt"]
        raise ValueError(f"attempt {later} has begun, so attempt {number} may no longer say what is latest")
    files: dict[str, list[Any]] = {}
    if "://" not in path:
        whole = os.path.abspath(path)
        if not os.path.exists(whole):
            raise FileNotFoundError(f"{path} does not exist")
        _flush(whole)
        files = _content(whole)
        inside = os.path.relpath(whole, os.path.abspath(folder))
        # Relative, so that the folder may be mounted elsewhere.
        path = whole if inside.startswith("..") else inside
    note: dict[str, Any] = {"path": path, "step": step, "attempt": number}
    if files:
        note["files"] = files
    earlier = [{key: one[key] for key in one if key != "earlier"} for one in notes if one["path"] != path]
    if earlier:
        note["earlier"] = earlier[:EARLIER]
    name = os.path.join(folder, LATEST)
    # A rank of an earlier attempt that was cut off may write as well, in another container with the same numbers.
    temporary = os.path.join(folder, f".{LATEST}.{number}.{os.getpid()}.{threading.get_ident()}")
    try:
        with open(temporary, "wb") as stream:
            stream.write(json.dumps(note).encode() + _LINE_END)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, name)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _flush_one(folder)


def _flush(path: str) -> None:
    """Wait until a file, or a folder with all that is in it, is on the disk. Raises OSError if the disk lost of it."""
    if os.path.isdir(path):
        for folder, _, files in os.walk(path, topdown=False):
            for name in files:
                _flush_one(os.path.join(folder, name))
            _flush_one(folder)
    else:
        _flush_one(path)
    _flush_one(os.path.dirname(path))  # which has its name, perhaps by a rename


def _flush_one(path: str) -> None:
    try:
        # A pipe must not wait for its writer.
        opened = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
    except OSError as error:
        # Any other error says that it cannot be flushed: not readable, gone again, a file system without fsync.
        if error.errno in (errno.EIO, errno.ENOSPC, errno.EDQUOT):
            raise


# --- Frameworks -------------------------------------------------------------------------------------------------------


def transformers_callback(every: float = 5.0) -> Any:
    """A callback for Trainer of Hugging Face Transformers: Trainer(..., callbacks=[transformers_callback()]).

    Reports steps, epochs and what the Trainer logs. Where Transformers' own callback reports to the server, this one
    writes the file only. Raises ImportError where transformers is not installed.
    """
    from transformers import TrainerCallback  # type: ignore[import-not-found,unused-ignore]
    from transformers.integrations import (  # type: ignore[import-not-found,unused-ignore]
        integration_utils,
    )

    off = os.environ.get("DISABLE_KUBEFLOW_INTEGRATION", "").upper() == "TRUE"
    theirs = hasattr(integration_utils, "KubeflowCallback") and not off

    class ProgressCallback(TrainerCallback):  # type: ignore[misc,unused-ignore]
        """Hands the state of the Trainer to a Reporter."""

        reporter: "Reporter | None" = None

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            """Start to report."""
            self.reporter = Reporter(
                total=state.max_steps if state.max_steps > 0 else None,
                every=every,
                epochs=args.num_train_epochs,
                rank=0 if state.is_world_process_zero else 1,
                push=not theirs,
            )
            self.reporter.update(step=state.global_step, epoch=state.epoch)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            """Report the step."""
            if self.reporter is not None:
                self.reporter.update(step=state.global_step, epoch=state.epoch)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            """Report what the Trainer logs: losses, the learning rate, results of evaluations."""
            if self.reporter is not None and logs:
                metrics = {name: value for name, value in logs.items() if name not in ("loss", "epoch")}
                self.reporter.update(loss=logs.get("loss"), metrics=metrics)

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            """Report the end. A training that raises does not come here, and is reported as failed at exit."""
            if self.reporter is not None:
                self.reporter.close()

    return ProgressCallback()


def _lightning() -> Any:
    """The package of Lightning, under the name that is installed."""
    try:
        import lightning.pytorch as lightning  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        import pytorch_lightning as lightning  # type: ignore[import-not-found,unused-ignore]
    return lightning


def lightning_callback(every: float = 5.0, steps: int = 50) -> Any:
    """A callback for Trainer of Lightning: Trainer(..., callbacks=[lightning_callback()]).

    Reports the loss of each step, and logged metrics each so many steps and each epoch. Raises ImportError where
    neither lightning nor pytorch_lightning is installed.
    """

    class ProgressCallback(_lightning().Callback):  # type: ignore[misc]
        """Hands the state of the Trainer to a Reporter."""

        reporter: "Reporter | None" = None

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            """Start to report."""
            total, epochs = trainer.estimated_stepping_batches, trainer.max_epochs
            self.reporter = Reporter(
                total=total if total > 0 else None,
                every=every,
                epochs=epochs if epochs is not None and epochs > 0 else None,
                rank=0 if trainer.is_global_zero else 1,
            )
            self._report(trainer)

        def on_train_batch_end(
            self,
            trainer: Any,
            pl_module: Any,
            outputs: Any,
            batch: Any,
            batch_idx: int,
        ) -> None:
            """Report the step. The loss stays a tensor."""
            loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
            logged = batch_idx % steps == steps - 1
            self._report(trainer, loss, trainer.callback_metrics if logged else None)

        def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            """Report what was logged in the epoch."""
            self._report(trainer, metrics=trainer.callback_metrics, epoch=trainer.current_epoch + 1)

        def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            """Report what was logged in the validation."""
            if not trainer.sanity_checking:
                self._report(trainer, metrics=trainer.callback_metrics)

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            """Report the failure."""
            if self.reporter is not None:
                self.reporter.__exit__(type(exception), exception, None)

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            """Report the end."""
            if self.reporter is not None:
                self.reporter.close()

        def _report(self, trainer: Any, loss: Any = None, metrics: Any = None, epoch: Any = None) -> None:
            if self.reporter is not None:
                reached = trainer.current_epoch if epoch is None else epoch
                self.reporter.update(step=trainer.global_step, loss=loss, epoch=reached, metrics=metrics)

    return ProgressCallback()


class TorchtuneLogger:
    """A metric logger for torchtune: metric_logger._component_=trainwright.progress.TorchtuneLogger.

    With log_dir, as in torchtune's own configurations, its DiskLogger goes on writing there. torchtune tells loggers
    the number of steps only if max_steps_per_epoch is set; otherwise there is no percentage.
    """

    def __init__(self, log_dir: "str | None" = None, every: float = 5.0, **settings: Any) -> None:
        self._reporter = Reporter(every=every)
        self._disk: Any = None
        if log_dir is not None:
            from torchtune.training.metric_logging import (  # type: ignore[import-not-found,unused-ignore]
                DiskLogger,
            )

            self._disk = DiskLogger(log_dir=log_dir, **settings)

    def log_config(self, config: Any) -> None:
        """Take the number of epochs and steps from the configuration of the recipe."""
        if self._disk is not None:
            self._disk.log_config(config)
        epochs, steps = config.get("epochs"), config.get("max_steps_per_epoch")
        self._reporter.epochs = epochs
        if epochs and steps:
            self._reporter.total = epochs * steps

    def log(self, name: str, data: Any, step: int) -> None:
        """Report one metric."""
        if self._disk is not None:
            self._disk.log(name, data, step)
        self.report({name: data}, step)

    def log_dict(self, payload: "Mapping[str, Any]", step: int) -> None:
        """Report several metrics."""
        if self._disk is not None:
            self._disk.log_dict(payload, step)
        self.report(payload, step)

    def report(self, metrics: "Mapping[str, Any]", step: int) -> None:
        """Report metrics without writing them to the disk log."""
        others = {name: value for name, value in metrics.items() if name != "loss"}
        self._reporter.update(step=step, loss=metrics.get("loss"), metrics=others)

    def close(self) -> None:
        """Report the end. Recipes call it after a training that succeeded."""
        if self._disk is not None:
            self._disk.close()
        self._reporter.close()
