# SPDX-License-Identifier: Apache-2.0
"""Reports the progress of a training, from inside the training code.

    from trainwright.progress import Reporter

    with Reporter(total=len(batches)) as progress:
        for step, batch in enumerate(batches, 1):
            progress.update(step=step, loss=train(batch))

Reports go to the server that the environment names (KUBEFLOW_TRAINER_SERVER_URL), to the file that it names
(TRAINWRIGHT_PROGRESS_FILE), or to both. Elsewhere, such as on a laptop, nothing is written. One background thread
sends; nothing here ever delays a training step or raises an exception into the training.

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
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

__all__ = [
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
_LOWEST, _HIGHEST = ".min", ".max"
"""What the names of extremes end with. Their values are not plain numbers, so charts do not draw them as curves."""
_NUMBERS = ("numpy", "decimal", "fractions")
"""Modules whose values are in the memory of the CPU: to read one takes no time."""
_UNKNOWN = (None, math.inf, None, -math.inf, None)
_NO_MEAN = (-1, 0.0, 0)
_EXTREME = re.compile("(-?[0-9][0-9.e+-]*) (?:at step (-?[0-9][0-9.e+-]*)|so far)")


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


def extremes(metrics: "Mapping[str, str]") -> "tuple[dict[str, str], dict[str, Extremes]]":
    """The metrics of a report without what a Reporter adds to say their extremes; and these by the name of the metric.

    A Reporter sends reports seconds apart. A value that was passed in between, and is lower or higher than the last
    one, is told by a metric such as loss.min, whose value is "0.25 at step 12", or "0.25 so far" without steps.
    """
    plain, found = dict(metrics), dict[str, Extremes]()
    for name, text in metrics.items():
        base, said = name[: -len(_LOWEST)], _EXTREME.fullmatch(text)
        if said is None or base not in metrics or not name.endswith((_LOWEST, _HIGHEST)):
            continue
        try:
            value, step = float(said[1]), float(said[2]) if said[2] else None
        except ValueError:
            continue
        del plain[name]
        known = found.get(base, Extremes())
        if name.endswith(_LOWEST):
            found[base] = known._replace(lowest=value, lowest_step=step)
        else:
            found[base] = known._replace(highest=value, highest_step=step)
    return plain, found


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
        # Written by the training thread alone: name -> (last value, lowest, its step, highest, its step), of numbers.
        self._values: dict[str, tuple[Any, float, Any, float, Any]] = {}
        self._losses: dict[str, tuple[Any, float, Any, float, Any]] = {}
        self._mean = frozenset((mean,) if isinstance(mean, str) else mean)
        # Of these: name -> (period, mean, count). A new period begins when the thread has taken the values: it counts
        # _period up, and the next update of a name starts a new mean.
        self._means: dict[str, tuple[int, float, int]] = {}
        self._period = 0
        # By the thread alone: of all that it has sent, and of what the training thread saw.
        self._extremes: dict[str, Extremes] = {}
        self._first: tuple[Any, Any] | None = None
        self._latest: tuple[Any, Any, Any, Any, float] = (None, None, None, None, 0.0)
        # Used by the thread, and by whoever closes the reporter while the thread waits for the server.
        self._documents = threading.Lock()
        self._taken: object = self._latest
        self._steps, self._epochs = _Pace(_WARM_UP_STEPS), _Pace(0)
        self._channels: list[_Channel] = []
        self._final = self._checkpoint = ""
        self._rank = -1
        self._sending = self._left = False
        self._wake: queue.SimpleQueue[queue.SimpleQueue[None] | None] = queue.SimpleQueue()
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
        if not destinations:
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
        """Note where the training is. Takes about a microsecond: it keeps references, and sends nothing.

        What is left out keeps its value.

        step: counted from 1, so that it is the total at the end.
        loss, metrics: the value that was passed last is sent, and what the lowest and the highest one were. Of tensors
        that are not in the memory of the CPU, and of values that are no numbers, which the background thread converts,
        these are those of what was sent.
        eta: seconds to go; otherwise it is computed from the time of the steps.
        percentage: otherwise it is computed from steps or epochs.
        """
        if not self._active:
            return
        try:
            before = self._latest
            at = before[0] if step is None else step
            if loss is not None:
                self._add(self._losses, "loss", loss, at)
            if metrics:
                for name, value in metrics.items():
                    self._add(self._values, name, value, at)
            self._latest = (
                at,
                before[1] if epoch is None else epoch,
                before[2] if percentage is None else percentage,
                before[3] if eta is None else eta,
                self._clock(),
            )
            first = self._first
            if first is None:
                self._first = (step, epoch)
                self._wake.put(None)
            elif (first[0] is None and step is not None) or (first[1] is None and epoch is not None):
                self._first = (step if first[0] is None else first[0], epoch if first[1] is None else first[1])
        except Exception as error:  # the training goes on
            self._warn("update", f"a call of update was left out: {error!r}")

    def _add(self, values: "dict[str, tuple[Any, float, Any, float, Any]]", name: str, value: Any, step: Any) -> None:
        kind = type(value)
        before = values.get(name)
        if before is None and (value is None or len(values) >= METRICS):
            return
        if kind is not float and kind is not int:
            is_here = isinstance(value, (float, int)) or kind.__module__ in _NUMBERS
            if not is_here and getattr(value, "is_cpu", False) is not True:
                # A tensor that may wait for its device, or no number.
                _, low, low_step, high, high_step = _UNKNOWN if before is None or value is None else before
                values[name] = (value, low, low_step, high, high_step)
                return
            value = self._plain(value, name)
            if value is None:
                return
        if name in self._mean:
            period, mean, count = self._means.get(name, _NO_MEAN)
            # A running mean keeps equal values exactly as they are; a sum would round them.
            mean, count = (mean + (value - mean) / (count + 1), count + 1) if period == self._period else (value, 1)
            self._means[name] = (self._period, mean, count)
            values[name] = (mean, *_UNKNOWN[1:])
            return
        _, low, low_step, high, high_step = before or _UNKNOWN
        if -_LARGEST <= value < low:
            low, low_step = value, step
        if high < value <= _LARGEST:
            high, high_step = value, step
        values[name] = (value, low, low_step, high, high_step)

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
        while self._active:
            try:
                ordered = self._wake.get(timeout=self._every)
            except queue.Empty:
                ordered = None
            try:
                self._tick(last=ordered is not None)
            except Exception as error:  # a report is lost, the next one may work
                self._warn("thread", f"a progress report was left out: {error!r}")
            if ordered is not None:
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

    def _take(self, *, again: bool) -> "dict[str, Any] | None":
        """Offer a document to the channels: if there is something new, or in any case."""
        latest = self._latest
        if latest is self._taken and not again:
            return None
        document = self._document(latest)
        self._taken = latest
        for channel in self._channels:
            channel.offer(document)
        return document

    def _document(self, latest: "tuple[Any, Any, Any, Any, float]") -> "dict[str, Any]":
        """The progress document of now; section 4.1 of its description is docs/users/progress.md."""
        now = self._clock()
        at = latest[4] if self._first is not None else now
        first = self._first or (None, None)
        values, losses = _items(self._values), _items(self._losses)
        self._period += 1
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
        named = [(str(name)[:CHARACTERS], entry) for name, entry in values if name]
        # A termination message keeps the first metrics: an attempt is judged by its last checkpoint.
        named.sort(key=lambda one: one[0] != CHECKPOINT_STEP)
        told = {name: self._told(name, entry, step) for name, entry in named}
        metrics = {name: value for name, value in told.items() if value is not None}
        # Of a metric a text is told; a report whose loss is one would be refused as a whole.
        numbers = [(name, (self._plain(entry[0], name), *entry[1:])) for name, entry in losses]
        loss = next((self._told(name, entry, step) for name, entry in numbers), None)
        self._add_extremes(metrics, loss)
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

    def _told(self, name: str, entry: "tuple[Any, float, Any, float, Any]", step: "float | None") -> Any:
        """What is sent for a metric; its extremes are taken in."""
        last, low, low_step, high, high_step = entry
        if isinstance(last, str):
            return last[:CHARACTERS] or None
        number = _json(self._plain(last, name))
        if number is None:
            self._extremes.pop(name, None)
            return None
        known = self._extremes.get(name, Extremes())
        if low <= high:
            known = _widened(known, low, self._plain(low_step))
            known = _widened(known, high, self._plain(high_step))
        if not isinstance(number, str):
            known = _widened(known, number, step)
        self._extremes[name] = known
        return number

    def _add_extremes(self, metrics: "dict[str, Any]", loss: Any) -> None:
        """Say the extremes that the last values do not say, after all else, since what is too much is cut there."""
        for name, number in [("loss", loss), *metrics.items()]:
            known = self._extremes.get(name)
            if known is None or number is None:
                continue
            for end, value, step in ((_LOWEST, *known[:2]), (_HIGHEST, *known[2:])):
                is_free = name + end not in metrics and len(name + end) <= CHARACTERS
                if value is not None and value != number and is_free and len(metrics) < METRICS - _COUNTERS:
                    metrics[name + end] = _text(value) + (" so far" if step is None else f" at step {_text(step)}")

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


def _items(
    values: "dict[str, tuple[Any, float, Any, float, Any]]",
) -> "list[tuple[str, tuple[Any, float, Any, float, Any]]]":
    """The entries, though the training thread may add some meanwhile."""
    for _ in range(100):
        with contextlib.suppress(RuntimeError):
            return list(values.items())
    return []


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
