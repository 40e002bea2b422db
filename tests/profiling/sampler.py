# SPDX-License-Identifier: Apache-2.0
"""Runs the `trainwright` command and samples its stack by CPU time.

    python -m tests.profiling.sampler SAMPLES.json manager ...

The first SIGUSR1 starts the sampling, the next one stops it and writes the samples. The kernel sends SIGPROF after each
PERIOD_SECONDS of CPU time of the process, so waiting is never sampled. Time in C code counts for the Python frame that
called it, or, outside of any frame (the event loop itself), for the next one that runs.
"""

import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

from trainwright.controller.cli.main import main

PERIOD_SECONDS = 0.004


class Sampler:
    """Counts stacks. A stack is the files and functions of its frames, innermost first."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._stacks: Counter[tuple[tuple[str, str], ...]] = Counter()
        self._on = False

    def take(self, _: int, frame: FrameType | None) -> None:
        """One sample."""
        stack = []
        while frame is not None:
            stack.append((frame.f_code.co_filename, frame.f_code.co_qualname))
            frame = frame.f_back
        self._stacks[tuple(stack)] += 1

    def switch(self, *_: object) -> None:
        """Start, or stop and write."""
        self._on = not self._on
        signal.setitimer(signal.ITIMER_PROF, *((PERIOD_SECONDS,) * 2 if self._on else (0, 0)))
        if not self._on:
            written = self._file.with_suffix(".part")
            written.write_text(json.dumps(list(self._stacks.items())))
            os.replace(written, self._file)  # noqa: PTH105 - whoever waits for the file reads it whole
            self._stacks.clear()


if __name__ == "__main__":
    sampler = Sampler(Path(sys.argv[1]))
    signal.signal(signal.SIGPROF, sampler.take)
    signal.signal(signal.SIGUSR1, sampler.switch)
    signal.siginterrupt(signal.SIGPROF, False)
    raise SystemExit(main(sys.argv[2:]))
