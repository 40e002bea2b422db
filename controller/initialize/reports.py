# SPDX-License-Identifier: Apache-2.0
"""What a run says, without secrets: its log, how far it is, and its last sentence."""

import asyncio
import contextlib
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from trainwright.controller.initialize.contract import Kind
from trainwright.progress import FINAL, Reporter

ALWAYS_SECRET = (
    "ACCESS_TOKEN",
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "SECRET_ACCESS_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
)
"""Variables that hold secrets whichever provider runs."""
HIDDEN = "***"
_SHORTEST = 3
"""Shorter values would blank out ordinary words, and protect nothing."""
_USER = re.compile(r"([A-Za-z][\w+.-]*://)[^/\s?#]*@")
_QUERY = re.compile(r"([A-Za-z][\w+.-]*://[^\s?#]*)\?[^\s#'\"]*")


class Redactor:
    """Knows the secrets of one run."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        forms = {form for value in values for form in (value, value.strip(), quote(value, safe=""), repr(value)[1:-1])}
        # The longest first: one secret may contain another.
        self._forms = sorted((form for form in forms if len(form) >= _SHORTEST), key=len, reverse=True)

    def clean(self, text: str) -> str:
        """The text without secrets, and without users and queries in addresses."""
        for form in self._forms:
            text = text.replace(form, HIDDEN)
        return _QUERY.sub(r"\1", _USER.sub(r"\1", text))


def secrets_in(address: str) -> list[str]:
    """Parts of an address that may be secret: the password, and values of the query that are long enough for a key."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return []
    password = [unquote(parts.password)] if parts.password else []
    return password + [value for name, value in parse_qsl(parts.query) if len(value) >= 12 and name != "revision"]


def secrets_of(variables: Mapping[str, str], names: Iterable[str]) -> list[str]:
    """Values of the variables that hold secrets."""
    return [variables[name] for name in {*ALWAYS_SECRET, *names} if variables.get(name)]


EVERY_SECONDS = 10.0
SENTENCE = 300
"""Characters of the termination message."""
DEFAULT_TERMINATION_LOG = "/dev/termination-log"


class Log:
    """Lines on stderr, without secrets."""

    def __init__(self, redactor: Redactor, stream: TextIO | None = None) -> None:
        self._redactor = redactor
        self._stream = stream

    def __call__(self, text: str) -> None:
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        print(f"{stamp} {self._redactor.clean(text)}", file=self._stream or sys.stderr, flush=True)


class Progress:
    """Bytes and files of one run, which never count as a part of the training: no percentage is reported."""

    def __init__(self, kind: Kind, log: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._kind = kind
        self._log = log
        self._clock = clock
        self._reporter = Reporter(rank=0, push=False)
        self._started = clock()
        self.bytes = self.bytes_total = self.files = self.files_total = 0
        self._at_start = 0

    def begin(self, *, here: int, size: int, files_here: int, files: int) -> None:
        """What lies in the target already, and what all files are together."""
        self._started = self._clock()
        self.bytes = self._at_start = here
        self.bytes_total, self.files, self.files_total = size, files_here, files
        self.report()

    def report(self) -> None:
        """Give the numbers to the progress document, if there is one."""
        # As text: the reporter makes means of numbers.
        numbers = {
            "bytes": self.bytes,
            "bytes_total": self.bytes_total,
            "files": self.files,
            "files_total": self.files_total,
        }
        self._reporter.update(metrics={f"{self._kind}_{name}": str(value) for name, value in numbers.items()})

    def line(self) -> str:
        """The numbers for people."""
        seconds = max(self._clock() - self._started, 1e-9)
        rate = (self.bytes - self._at_start) / seconds
        text = (
            f"{self._kind}: {amount(self.bytes)} of {amount(self.bytes_total)}, "
            f"{self.files} of {self.files_total} files, {amount(rate)}/s"
        )
        if rate > 0 and self.bytes < self.bytes_total:
            text += f", about {(self.bytes_total - self.bytes) / rate:.0f} s to go"
        return text

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            self.report()
            self._log(self.line())

    def close(self, *, failed: bool) -> None:
        """Send the last report. Success is not "completed": that would be 100 % of the training."""
        self._reporter.close("failed" if failed else "running")


def amount(number: float) -> str:
    """A number of bytes for people."""
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"


def leave_sentence(sentence: str, variables: Mapping[str, str]) -> None:
    """Write the termination message, cut to what is shown; the progress document follows on a line of its own."""
    path = variables.get(FINAL) or variables.get("TERMINATION_LOG")
    if not path:
        # Outside of a container the file is missing, and nothing makes it.
        if not Path(DEFAULT_TERMINATION_LOG).exists():
            return
        path = DEFAULT_TERMINATION_LOG
    text = " ".join(sentence.split())
    if len(text) > SENTENCE:
        text = f"{text[: SENTENCE - 1]}…"
    with (
        contextlib.suppress(OSError),
        Path(path).open("wb") as stream,  # in place: the file is a mount
    ):
        stream.write(text.encode("utf-8", "replace") + b"\n")
