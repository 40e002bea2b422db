# SPDX-License-Identifier: Apache-2.0
"""Downloads by `trainwright initialize` beside huggingface_hub's snapshot_download, from one hub of this machine.

Printed for each: seconds and CPU seconds of the process, peak memory, requests and bytes that the hub sent; medians of
the rounds. Then the second start, and what is fetched again after a kill at half of a large file. Budgets: page of the
initializers. huggingface_hub is that of .run/clients, which `hack/install.py --for-clients` sets up.
"""

import argparse
import asyncio
import os
import random
import re
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.repository import ROOT
from tests.unit.initialize.hub import Hub, Repository, serving

CLIENTS = ROOT / ".run" / "clients" / "bin" / "python"
SNAPSHOT = """
import sys
from huggingface_hub import snapshot_download
snapshot_download(sys.argv[1], local_dir=sys.argv[2])
"""
OURS, THEIRS = "trainwright initialize", "snapshot_download"


@dataclass(frozen=True)
class Figures:
    """Of one process."""

    seconds: float
    cpu: float
    mebibytes: float
    requests: int
    sent: int


def command(which: str, name: str, target: Path) -> list[str]:
    if which == THEIRS:
        return [str(CLIENTS), "-c", SNAPSHOT, f"o/{name}", str(target)]
    program = [sys.executable, "-m", "trainwright.controller.cli.main", "initialize", "model"]
    return [*program, f"--storage-uri=hf://o/{name}", f"--output={target}"]


def run(hub: Hub, which: str, name: str, target: Path, *, until: Callable[[], bool] = lambda: False) -> Figures:
    """Run a download to its end, or kill it as soon as `until` says so."""
    requests, sent = len(hub.requests), hub.bytes_sent
    variables = {"HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    quiet = {"TERMINATION_LOG": str(target.parent / "ended"), "HF_HUB_DISABLE_XET": "1"}
    begun = time.perf_counter()
    with Path(os.devnull).open("wb") as nothing:
        pid = os.posix_spawn(
            command(which, name, target)[0],
            command(which, name, target),
            {**os.environ, **variables, **quiet},
            file_actions=[(os.POSIX_SPAWN_DUP2, nothing.fileno(), 2)],
        )
    most = 0.0
    while True:
        # Not ru_maxrss, which begins with the memory of this process.
        most = max(most, peak(pid))
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        if ended:
            break
        if until():
            os.kill(pid, 9)
        time.sleep(0.005)
    if status and os.WIFEXITED(status):
        raise SystemExit(f"{which} ends with {os.waitstatus_to_exitcode(status)}")
    return Figures(
        time.perf_counter() - begun,
        usage.ru_utime + usage.ru_stime,
        most,
        len(hub.requests) - requests,
        hub.bytes_sent - sent,
    )


def peak(pid: int) -> float:
    """The most memory that a process had so far, in MiB; 0 if it has ended."""
    try:
        found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0.0
    return int(found[1]) / 1024 if found else 0.0


@contextmanager
def hub_of_this_process(hub: Hub) -> Iterator[Hub]:
    """The hub, in a thread with a loop of its own."""
    ready, end = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with serving(hub):
            ready.set()
            await end.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    ready.wait()
    yield hub
    loop.call_soon_threadsafe(end.set)
    thread.join()


def show(what: str, which: str, found: list[Figures]) -> None:
    middle = [statistics.median(getattr(one, name) for one in found) for name in Figures.__annotations__]
    seconds, cpu, mebibytes, requests, sent = middle
    print(
        f"{what:28} {which:24} {seconds:6.2f} s {cpu:6.2f} s CPU {mebibytes:6.0f} MiB {requests:6.0f} requests "
        f"{sent / 2**20:7.1f} MiB sent"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=2500)
    parser.add_argument("--mebibytes", type=int, default=256, help="size of the large file")
    arguments = parser.parse_args()
    numbers = random.Random(1)
    small = {f"part-{number // 100}/{number}.json": numbers.randbytes(2000) for number in range(arguments.files)}
    large = {"model.safetensors": numbers.randbytes(2**20) * arguments.mebibytes}
    repositories = {
        "models/o/small": Repository(small),
        "models/o/large": Repository(large, large=("model.safetensors",)),
    }
    known = [OURS, *([THEIRS] if CLIENTS.exists() else [])]
    if len(known) == 1:
        print("without huggingface_hub: hack/install.py --for-clients")
    with tempfile.TemporaryDirectory() as folder, hub_of_this_process(Hub(repositories)) as hub:
        target = Path(folder, "target")
        for name, what in (
            ("small", f"{arguments.files} files of 2 kB"),
            ("large", f"one of {arguments.mebibytes} MiB"),
        ):
            for which in known:
                first, second = [], []
                for _ in range(arguments.rounds):
                    shutil.rmtree(target, ignore_errors=True)
                    first.append(run(hub, which, name, target))
                    second.append(run(hub, which, name, target))
                show(what, which, first)
                show(f"{what}, again", which, second)
        for which in known:
            again = []
            for _ in range(arguments.rounds):
                shutil.rmtree(target, ignore_errors=True)
                half = sum(map(len, large.values())) // 2
                run(hub, which, "large", target, until=lambda: written(target) >= half)  # noqa: B023 - called at once
                again.append(run(hub, which, "large", target))
            show("after a kill at half", which, again)


def written(target: Path) -> int:
    """Bytes below the target."""
    return sum(path.stat().st_size for path in target.rglob("*") if path.is_file()) if target.is_dir() else 0


if __name__ == "__main__":
    main()
