# SPDX-License-Identifier: Apache-2.0
"""A manager as a process: signals and exit codes."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
import asyncio, sys
from trainwright.controller.runtime import NO_SERVERS, ClusterConfig, Manager, ProcessSettings, run

class Slow:
    def __init__(self): self.asked = asyncio.Event()
    def request_stop(self):
        print("asked", flush=True)
        self.asked.set()
    async def run(self):
        print("up", flush=True)
        await self.asked.wait()
        {end}

def make():
    config = ClusterConfig(server="http://127.0.0.1:1")
    manager = Manager(config, servers=NO_SERVERS, process=ProcessSettings(grace={grace}))
    manager.add(Slow())
    return manager

sys.exit(run(make))
"""


@pytest.mark.parametrize(
    ("end", "grace", "signals", "code"),
    [
        ("print('clean', flush=True)", 30, [signal.SIGTERM], 0),
        ("await asyncio.sleep(60)", 30, [signal.SIGTERM, signal.SIGTERM], 1),
        ("await asyncio.sleep(60)", 0.2, [signal.SIGINT], 1),
        ("raise ValueError('broken')", 30, [signal.SIGTERM], 0),
    ],
    ids=["clean", "twice", "late", "failing while stopping"],
)
def test_signals_end_the_process(end: str, grace: float, signals: list[signal.Signals], code: int) -> None:
    source = textwrap.dedent(PROGRAM).replace("{end}", end).replace("{grace}", str(grace))
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        os.kill(process.pid, signals[0])
        assert process.stdout.readline() == b"asked\n"
        for number in signals[1:]:
            os.kill(process.pid, number)
        _, errors = process.communicate(timeout=30)
        assert process.returncode == code, errors


def test_a_failure_is_the_exit_code_and_one_message() -> None:
    source = (
        textwrap.dedent(PROGRAM).replace("{end}", "").replace("{grace}", "1").replace("self.asked.wait()", "fail()")
    )
    source = source.replace("class Slow", "async def fail(): raise RuntimeError('no disk')\n\nclass Slow")
    ended = subprocess.run([sys.executable, "-c", source], capture_output=True, check=False, timeout=30)
    assert ended.returncode == 1
    assert b"RuntimeError: no disk" in ended.stderr
    assert b"Traceback" not in ended.stderr


MAKING = """
import asyncio, os, signal, sys
from trainwright.controller.runtime import NO_SERVERS, ClusterConfig, Manager, run

class Up:
    async def run(self): print("up", flush=True)

def manager():
    made = Manager(ClusterConfig(server="http://127.0.0.1:1"), servers=NO_SERVERS)
    made.add(Up())
    return made

async def waits():
    print("making", flush=True)
    await asyncio.Event().wait()

async def begins_late():
    print("begun", flush=True)
    return manager()

def asked_before():
    print("making", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    return {made}

print(run({make}), signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, flush=True)
"""


@pytest.mark.parametrize(
    ("make", "made"),
    [("waits", "None"), ("asked_before", "manager()"), ("asked_before", "begins_late()")],
    ids=["waits for the cluster", "made at once", "made by a coroutine"],
)
def test_a_signal_while_the_manager_is_made_ends_it_before_it_runs(make: str, made: str) -> None:
    source = MAKING.replace("{make}", make).replace("{made}", made)
    # Without a buffer: `communicate` does not return what `readline` has read ahead.
    with subprocess.Popen(
        [sys.executable, "-c", source], bufsize=0, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"making\n"
        if make == "waits":
            os.kill(process.pid, signal.SIGTERM)
        lines, errors = process.communicate(timeout=30)
        assert (process.returncode, lines) == (0, b"0 True\n"), errors
        assert b"Traceback" not in errors
