# SPDX-License-Identifier: Apache-2.0
"""What the machine has to give, and who holds it: CPUs, memory, GPUs and locked ports; and what containers use."""

import asyncio
import errno
import logging
import os
import re
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trainwright.api.objects import Document, uid_of
from trainwright.api.quantity import Quantity, Style
from trainwright.controller.local.node.document import CreateError, containers_of, is_sidecar
from trainwright.controller.local.node.process import lowlevel

log = logging.getLogger(__name__)

# ---------------------------------------------------------------------- locks

PREFIX = "trainwright"
"""Begins the names of the locks of all clusters of the machine, whoever started them."""


class MachineLocks:
    """What this cluster holds: ports and GPUs, which it keeps apart from those of other clusters on the machine.

    Each is the name of an abstract socket (https://man7.org/linux/man-pages/man7/unix.7.html): one process has it, and
    the kernel lets it go when that ends, however it ends. A port is held from its choice on: until the program listens
    on it, it looks free to all others.
    """

    def __init__(self) -> None:
        self._held: dict[str, int] = {}
        """Descriptors by what is held."""

    def take(self, what: str) -> bool:
        """Hold something; False if it is held already, here or by another process."""
        if what in self._held:
            return False
        lock = socket.socket(socket.AF_UNIX)
        try:
            lock.bind(f"\0{PREFIX}-{what}")
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                lock.close()
                return False
            # Without locks two clusters may choose the same; without ports no job would start.
            log.warning("%s is not kept apart from those of other clusters: %s", what, error)
        self._held[what] = lock.detach()
        return True

    def give_back(self, what: str) -> None:
        if (descriptor := self._held.pop(what, None)) is not None:
            os.close(descriptor)

    def close(self) -> None:
        for what in list(self._held):
            self.give_back(what)


# ---------------------------------------------------------------------- capacity
#
# CPUs and memory less a tenth, and what the settings say instead.

PODS = 110
RESERVED = 10
"""Percent of CPUs and memory that stay with the user."""
_NANO = 10**9


def machine_capacity() -> dict[str, str]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cpu": str(usable_cpus()), "memory": f"{memory // 1024}Ki", "pods": str(PODS)}


def usable_cpus() -> int:
    return len(os.sched_getaffinity(0))


def node_resources(
    machine: Mapping[str, str], devices: Mapping[str, str], overrides: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Capacity and allocatable of a node.

    Overrides replace both: whoever names an amount wants to give exactly that. Raises ValueError for one that is no
    quantity.
    """
    given = {name: Quantity.parse(value).canonical() for name, value in overrides.items()}
    capacity = {**machine, **devices, **given}
    allocatable = {name: _less(name, value) for name, value in {**machine, **devices}.items()} | given
    return capacity, allocatable


def _less(name: str, value: str) -> str:
    amount = Quantity.parse(value)
    if name == "cpu":
        return Quantity(amount.nanos * (100 - RESERVED) // 100).canonical()
    if name == "memory":
        kibibytes = amount.nanos // _NANO * (100 - RESERVED) // 100 // 1024
        return Quantity(kibibytes * 1024 * _NANO, Style.BINARY).canonical()
    return value


# ---------------------------------------------------------------------- GPUs
#
# A pod gets whole devices, named by uuid in CUDA_VISIBLE_DEVICES. Two pods never share one: NCCL refuses a device that
# two ranks use. Neither do two clusters of a user: a device that one of them has given to a pod is locked.

RESOURCE = "nvidia.com/gpu"
VARIABLE = "CUDA_VISIBLE_DEVICES"
DRIVER = Path("/proc/driver/nvidia/gpus")
SMI_SECONDS = 20.0
"""nvidia-smi loads the driver, which takes its time."""

_UUID = re.compile(r"^GPU UUID:\s*(GPU-\S+)\s*$", re.MULTILINE)


def discover(proc: Path = DRIVER, smi: str = "nvidia-smi") -> tuple[str, ...]:
    """The uuids of the GPUs, from the driver's files, else from nvidia-smi. Blocks. Empty: there are none."""
    if proc.is_dir():
        found = [match[1] for path in sorted(proc.glob("*/information")) if (match := _UUID.search(path.read_text()))]
        if found:
            return tuple(found)
    try:
        return tuple(line for line in _smi(smi, "uuid", SMI_SECONDS) if line.startswith("GPU-"))
    except FileNotFoundError:
        pass
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("the GPUs of this machine are not known: %s", error)
    return ()


def _smi(program: str, query: str, seconds: float) -> list[str]:
    """Lines of nvidia-smi. Blocks. Raises OSError, subprocess.SubprocessError."""
    command = [program, f"--query-gpu={query}", "--format=csv,noheader,nounits"]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=True).stdout
    return [stripped for line in listed.splitlines() if (stripped := line.strip())]


class Gpus:
    def __init__(self, devices: Sequence[str] = (), *, share: bool = False) -> None:
        """`share`: leave all devices visible to everybody, and assign none."""
        self._free = list(devices)
        self._share = share
        self._locks = MachineLocks()
        self._held: dict[str, tuple[str, ...]] = {}
        self.count = len(devices)

    def variables(self, pod: Document, container: Document) -> dict[str, str]:
        """The variables of a container; the devices of a pod are assigned at the first call and kept for its life.

        Raises CreateError if too few are free.
        """
        if not self.count or self._share:
            return {}
        before, count = _offset(pod, container), gpus_of(container)
        # Also for none: a pod that asks for no GPU sees none, as in a cluster.
        return {VARIABLE: ",".join(self._assigned(pod)[before : before + count])}

    def devices_of(self, pod: Document, container: Document) -> tuple[str, ...]:
        """The devices that a container has, as far as they have been assigned."""
        before, count = _offset(pod, container), gpus_of(container)
        return self._held.get(uid_of(pod), ())[before : before + count]

    def release(self, uid: str) -> None:
        given_back = self._held.pop(uid, ())
        self._free += given_back
        for device in given_back:
            self._locks.give_back(device)

    def close(self) -> None:
        self._locks.close()

    def _assigned(self, pod: Document) -> tuple[str, ...]:
        if (uid := uid_of(pod)) not in self._held:
            self._held[uid] = self._taken(_needed(pod))
        return self._held[uid]

    def _taken(self, wanted: int) -> tuple[str, ...]:
        """So many devices that neither this cluster nor another one has given away. Raises CreateError."""
        taken: list[str] = []
        for device in self._free:
            if len(taken) == wanted:
                break
            if self._locks.take(device):
                taken.append(device)
        if len(taken) < wanted:
            for device in taken:
                self._locks.give_back(device)
            elsewhere = len(self._free) - len(taken)
            more = f"; {elsewhere} more are in use by other clusters" if elsewhere else ""
            raise CreateError(f"the pod needs {wanted} GPUs, {len(taken)} of {self.count} are free{more}")
        self._free = [device for device in self._free if device not in taken]
        return tuple(taken)


def gpus_of(container: Document) -> int:
    amount = ((container.get("resources") or {}).get("limits") or {}).get(RESOURCE)
    return 0 if amount is None else Quantity.parse(amount).rounded_up()


def _lasting(pod: Document) -> list[Document]:
    init, main = containers_of(pod)
    return [*(one for one in init if is_sidecar(one)), *main]


def _needed(pod: Document) -> int:
    """Devices for all that runs at once. Init containers use them before."""
    return max([sum(gpus_of(one) for one in _lasting(pod)), *(gpus_of(one) for one in containers_of(pod).init)])


def _offset(pod: Document, container: Document) -> int:
    """Where the devices of a container begin among those of its pod."""
    offset = 0
    for one in _lasting(pod):
        if one["name"] == container["name"]:
            return offset
        offset += gpus_of(one)
    return 0


# ---------------------------------------------------------------------- usage


LEAST_SECONDS = 1.0
"""CPU is a rate over at least so long a time; whoever asks again before is told the same."""
FIRST_SECONDS = 0.25
"""The same for a container that is asked for the first time."""
USAGE_SECONDS = 5.0
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Used:
    cpu_seconds: float
    memory: int
    """Bytes; what processes share is counted once."""


@dataclass(frozen=True, slots=True)
class GpuUsed:
    busy: float
    """0 to 1."""
    memory: int
    """Bytes, of all programs that use it."""


def measure(guards: Mapping[str, int], proc: str = "/proc") -> dict[str, Used]:
    """What the descendants of each guard use; those that are gone are left out. Blocks for some milliseconds.

    A guard adopts what its container leaves behind, so nothing gets away. The time of a process that has ended is in
    that of its parent, and in the end in that of the guard, so the sum never falls.
    """
    processes = {pid: [int(field) for field in fields[1:22]] for pid, fields in lowlevel.processes(proc)}
    children: dict[int, list[int]] = {}
    for pid, fields in processes.items():
        children.setdefault(fields[0], []).append(pid)
    found = {}
    for name, guard in guards.items():
        if guard not in processes:
            continue
        ticks, memory, left = sum(processes[guard][12:14]), 0, list(children.get(guard, ()))
        while left:
            pid = left.pop()
            ticks += sum(processes[pid][10:14])
            memory += _memory(proc, pid, processes[pid][20])
            left += children.get(pid, ())
        found[name] = Used(ticks / _TICKS, memory)
    return found


def _memory(proc: str, pid: int, pages: int) -> int:
    """Bytes of a process, with its part of what it shares with others; else all that it has in memory."""
    with suppress(OSError, ValueError, IndexError):
        for line in Path(proc, str(pid), "smaps_rollup").read_bytes().splitlines():
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    return pages * _PAGE


def gpus_in_use(smi: str = "nvidia-smi") -> dict[str, GpuUsed]:
    """The devices by uuid; those that do not tell are left out. Blocks."""
    found = {}
    with suppress(OSError, subprocess.SubprocessError):
        for line in _smi(smi, "uuid,utilization.gpu,memory.used", USAGE_SECONDS):
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
