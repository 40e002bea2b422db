# SPDX-License-Identifier: Apache-2.0
"""Trainings as processes of their own, which report to files of the test."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

from tests.repository import ROOT
from tests.unit.progress.reporters import ENVIRONMENT
from trainwright import progress
from trainwright.progress import ReadError, Report, read

PROLOGUE = """
import os, signal, sys, threading, time
from trainwright.progress import Reporter

def reported():
    while not os.path.exists(os.environ["TRAINWRIGHT_PROGRESS_FILE"]):
        pass
"""


class Training:
    """A training, and the places of its reports."""

    def __init__(self, folder: Path, program: str, *, url: str = "", **variables: str) -> None:
        self.file, self.final = folder / "progress.json", folder / "termination-log"
        self.final.touch()
        environment = {name: value for name, value in os.environ.items() if name not in ENVIRONMENT}
        environment |= {"PYTHONPATH": str(ROOT), progress.FILE: str(self.file), progress.FINAL: str(self.final)}
        if url:
            environment[progress.SERVER_URL] = url
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROLOGUE + program],
            env=environment | variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        """The next line that it prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self) -> tuple[int, str, str]:
        """Let it read the end of its input, and wait: exit code, the rest of what it printed, its errors."""
        out, errors = self.process.communicate()
        return self.process.returncode, out, errors

    def signal(self, number: int) -> tuple[int, str, str]:
        """Send a signal and wait."""
        self.process.send_signal(number)
        return self.end()

    def said(self) -> Report:
        """The last report. Raises ReadError."""
        return read(self.file.read_bytes())

    def left(self) -> Report:
        """The report in the termination message. Raises ReadError."""
        return read(self.final.read_bytes())


UNENDING = """
reporter = Reporter(total=1 << 60)
reporter._every = 0.0  # writes without a pause
step = 0
print("ready", flush=True)
while True:
    step += 1
    reporter.update(step=step, loss=1.0 / step, metrics={"name" * 16: step, "text": "x" * 64})
"""


def kill_at_random(folder: Path, chance: random.Random) -> str:
    """Kill a training that writes without a pause; what is wrong with its file, or nothing."""
    training = Training(folder, UNENDING)
    training.line()
    try:
        training.process.wait(chance.uniform(0.0, 0.15))
    except subprocess.TimeoutExpired:
        training.signal(signal.SIGKILL)
    else:
        return f"ended by itself: {training.end()}"
    try:
        report = training.said()
    except FileNotFoundError:
        return ""
    except ReadError as error:
        return f"{error}: {training.file.read_bytes()[:200]!r}"
    return "" if report.step and report.state == "running" else f"not what was written: {report}"
