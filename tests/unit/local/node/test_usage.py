# SPDX-License-Identifier: Apache-2.0
"""What containers use: read from a /proc that the test makes, and from real processes."""

import asyncio
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from trainwright.controller.local.node import machine
from trainwright.controller.local.node.machine import LEAST_SECONDS, Gpus, GpuUsed, Meter, Used, gpus_in_use, measure

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def process(proc: Path, pid: int, parent: int, *, own: int = 0, gone: int = 0, pages: int = 0, pss: int = -1) -> None:
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    fields = ["S", str(parent), *["0"] * 9, str(own), "0", str(gone), "0", *["0"] * 6, str(pages), "0"]
    (folder / "stat").write_text(f"{pid} (odd) name) {' '.join(fields)}\n")
    if pss >= 0:
        (folder / "smaps_rollup").write_text(f"55 [rollup]\nRss: 999 kB\nPss:   {pss} kB\nPss_Anon: 1 kB\n")


def test_all_that_a_container_started_counts_and_its_guard_does_not(tmp_path: Path) -> None:
    process(tmp_path, 10, 1, own=7 * TICKS, gone=3 * TICKS, pages=1000)  # the guard
    process(tmp_path, 11, 10, own=2 * TICKS, gone=TICKS, pss=4)
    process(tmp_path, 12, 11, own=TICKS, pages=2)
    process(tmp_path, 13, 10, own=TICKS, pss=0)  # adopted
    process(tmp_path, 20, 1, own=99 * TICKS, pages=99)
    (tmp_path / "14").mkdir()  # it has ended
    (tmp_path / "self").mkdir()
    assert measure({"a": 10, "gone": 77}, str(tmp_path)) == {"a": Used(8.0, 4096 + 2 * PAGE)}
    assert measure({"a": 10}, str(tmp_path / "none")) == {}


def test_real_processes_are_measured() -> None:
    code = "held = bytearray(60_000_000)\nsum(range(5_000_000))\nprint('ready', flush=True)\ninput()"
    command = ["/bin/sh", "-c", f'{sys.executable} -c "{code}"; exit 0']
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as guard:
        assert guard.stdout is not None
        assert guard.stdout.readline() == b"ready\n"
        used = measure({"a": guard.pid})["a"]
        guard.communicate(b"\n")
    assert 60_000_000 < used.memory < 200_000_000
    assert used.cpu_seconds > 0


@pytest.mark.asyncio
async def test_cpu_is_a_rate_between_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"a": Used(1.0, 100)}
    clock = [100.0]

    def read(guards: Mapping[str, int]) -> dict[str, Used]:
        return {name: one for name, one in told.items() if name in guards}

    async def sleep(seconds: float) -> None:
        clock[0] += seconds
        told["a"] = Used(told["a"].cpu_seconds + 2 * seconds, 100)

    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: clock[0])
    monkeypatch.setattr("trainwright.controller.local.node.machine.asyncio.sleep", sleep)
    meter = Meter(read)
    assert await meter.use({"a": 1}) == {"a": (2.0, 100)}
    told["a"] = Used(99.0, 200)
    assert await meter.use({"a": 1}) == {"a": (2.0, 200)}, "too soon for another rate"
    await sleep(LEAST_SECONDS)
    told["a"] = Used(1.5 + LEAST_SECONDS / 2, 300)
    ((cpu, memory),) = (await meter.use({"a": 1})).values()
    assert cpu == pytest.approx(0.5)
    assert memory == 300
    assert await meter.use({}) == {}
    told["a"] = Used(0.0, 1)  # another run of that number
    assert await meter.use({"a": 1}) == {"a": (2.0, 100)}


def test_gpus_tell_what_they_do(tmp_path: Path) -> None:
    smi = tmp_path / "smi"
    smi.write_text("#!/bin/sh\necho 'GPU-1, 87, 1024'\necho 'GPU-2, [N/A], 5'\necho nonsense\n")
    smi.chmod(0o755)
    assert gpus_in_use(str(smi)) == {"GPU-1": GpuUsed(0.87, 2**30)}
    smi.write_text("#!/bin/sh\nexit 9\n")
    assert gpus_in_use(str(smi)) == {}
    assert gpus_in_use(str(tmp_path / "missing")) == {}


def test_the_devices_of_a_container_are_those_that_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "PREFIX", secrets.token_hex(8))

    def container(name: str, count: int) -> dict[str, object]:
        return {"name": name, "resources": {"limits": {"nvidia.com/gpu": str(count)}}}

    first, second = container("a", 1), container("b", 2)
    pod = {"metadata": {"uid": "u"}, "spec": {"containers": [first, second]}}
    gpus = Gpus(["G1", "G2", "G3", "G4"])
    assert gpus.devices_of(pod, second) == ()
    gpus.variables(pod, first)
    assert gpus.devices_of(pod, first) == ("G1",)
    assert gpus.devices_of(pod, second) == ("G2", "G3")
    gpus.close()
