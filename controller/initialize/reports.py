# SPDX-License-Identifier: Apache-2.0
"""What a run says: its log, how far it is, and its last sentence."""

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from trainwright.controller.initialize.contract import Kind
from trainwright.controller.initialize.redaction import Redactor
from trainwright.progress import FINAL, Reporter

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
