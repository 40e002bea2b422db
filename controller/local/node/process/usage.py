# SPDX-License-Identifier: Apache-2.0
"""How much CPU, memory and GPU the containers use now, from /proc and nvidia-smi. Without /proc it is not known."""

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
LEAST_SECONDS = 1.0
"""CPU is a rate over at least so long a time; whoever asks again before is told the same."""
FIRST_SECONDS = 0.25
"""The same for a container that is asked for the first time."""
SMI_SECONDS = 5.0
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Used:
    """What a tree of processes has used so far, and holds."""

    cpu_seconds: float
    memory: int
    """Bytes; what processes share is counted once."""


@dataclass(frozen=True, slots=True)
class GpuUsed:
    """What one device does."""

    busy: float
    """0 to 1."""
    memory: int
    """Bytes, of all programs that use it."""


@dataclass(frozen=True, slots=True)
class _Process:
    parent: int
    own: int
    """Ticks of the CPU."""
    children: int
    """The same, of children that have ended."""
    pages: int


def measure(guards: Mapping[str, int], proc: Path = PROC) -> dict[str, Used]:
    """What the descendants of each guard use; those that are gone are left out. Blocks for some milliseconds.

    A guard adopts what its container leaves behind, so nothing gets away. The time of a process that has ended is in
    that of its parent, and in the end in that of the guard, so the sum never falls.
    """
    processes = dict(_processes(proc))
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    found = {}
    for name, guard in guards.items():
        if guard not in processes:
            continue
        ticks, memory, left = processes[guard].children, 0, list(children.get(guard, ()))
        while left:
            pid = left.pop()
            process = processes[pid]
            ticks += process.own + process.children
            memory += _memory(proc, pid, process)
            left += children.get(pid, ())
        found[name] = Used(ticks / _TICKS, memory)
    return found


def _processes(proc: Path) -> Iterator[tuple[int, _Process]]:
    for folder in proc.glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):  # it has ended
            # The name of the program stands in brackets and may hold anything. proc_pid_stat(5), from field 3 on.
            fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
            own, gone = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
            yield int(folder.name), _Process(int(fields[1]), own, gone, int(fields[21]))


def _memory(proc: Path, pid: int, process: _Process) -> int:
    """Bytes of a process, with its part of what it shares with others; else all that it has in memory."""
    with suppress(OSError, ValueError, IndexError):
        for line in (proc / str(pid) / "smaps_rollup").read_bytes().splitlines():
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    return process.pages * _PAGE


def gpus_in_use(smi: str = "nvidia-smi") -> dict[str, GpuUsed]:
    """The devices by uuid; those that do not tell are left out. Blocks."""
    query = "--query-gpu=uuid,utilization.gpu,memory.used"
    try:
        listed = subprocess.run(
            [smi, query, "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=SMI_SECONDS,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    found = {}
    for line in listed.splitlines():
        with suppress(ValueError):  # `[N/A]`
            uuid, busy, memory = (part.strip() for part in line.split(","))
            found[uuid] = GpuUsed(int(busy) / 100, int(memory) * 1024 * 1024)
    return found


class Meter:
    """Makes rates of what was used between two questions."""

    def __init__(self, read: Callable[[Mapping[str, int]], dict[str, Used]] = measure) -> None:
        self._read = read
        self._lock = asyncio.Lock()
        self._before: dict[str, tuple[float, Used]] = {}
        self._rates: dict[str, float] = {}
        self._gpus: tuple[float, dict[str, GpuUsed]] = (float("-inf"), {})

    async def use(self, guards: Mapping[str, int]) -> dict[str, tuple[float, int]]:
        """CPUs and bytes of memory of each container, by the number of its guard."""
        clock = asyncio.get_running_loop().time
        async with self._lock:
            self._before = {name: one for name, one in self._before.items() if name in guards}
            self._rates = {name: one for name, one in self._rates.items() if name in guards}
            found = await self._measured(guards)
            if new := {name: used for name, used in found.items() if name not in self._before}:
                self._before |= {name: (clock(), used) for name, used in new.items()}
                await asyncio.sleep(FIRST_SECONDS)
                found = await self._measured(guards)
            now = clock()
            for name, used in found.items():
                at, before = self._before.get(name, (now, used))
                if now > at and (name not in self._rates or now - at >= LEAST_SECONDS):
                    self._rates[name] = max(0.0, (used.cpu_seconds - before.cpu_seconds) / (now - at))
                    self._before[name] = (now, used)
            return {name: (self._rates.get(name, 0.0), used.memory) for name, used in found.items()}

    async def gpus(self, wanted: Sequence[str]) -> dict[str, GpuUsed]:
        """What devices do; nothing is asked if none is wanted."""
        if not wanted:
            return {}
        now = asyncio.get_running_loop().time()
        if now - self._gpus[0] > LEAST_SECONDS:
            self._gpus = (now, await asyncio.to_thread(gpus_in_use))
        return self._gpus[1]

    async def _measured(self, guards: Mapping[str, int]) -> dict[str, Used]:
        return await asyncio.to_thread(self._read, guards)
