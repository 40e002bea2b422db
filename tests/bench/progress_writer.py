# SPDX-License-Identifier: Apache-2.0
"""What the progress writer costs a training: its import, and each call of `update` on the training thread.

    python tests/bench/progress_writer.py [--calls 1000000]

Each call is timed by itself; percentiles are in microseconds of wall time, so other processes on the machine show in
the last columns. Beside it stands a call of a function that does nothing, timed in the same way. The budget is 20
microseconds at the 99th percentile, whatever the server does.
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from trainwright import progress
from trainwright.progress import Reporter

IMPORT = """
import sys, time
sys.path.insert(0, sys.argv[1])
began = time.process_time(), time.perf_counter()
import progress
print((time.process_time() - began[0]) * 1e3, (time.perf_counter() - began[1]) * 1e3)
"""
METRICS = {"learning_rate": 3e-4, "norm": 1.5, "accuracy": 0.5, "tokens": 4096, "memory": 31.5}


def nothing(step: int, loss: float) -> None:
    """What the calls are compared with."""


@contextmanager
def black_hole() -> Iterator[str]:
    """The URL of a server that drops packets: the queue of its listener is full."""
    with closing(socket.create_server(("127.0.0.1", 0), backlog=0)) as listener:
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        yield f"https://127.0.0.1:{listener.getsockname()[1]}/status"
        for one in waiting:
            one.close()


def percentiles(calls: int, call: Callable[[int], None]) -> tuple[float, float, float, float]:
    """Median, 99th and 99.9th percentile and maximum of the calls, in microseconds."""
    times = array("q", bytes(8 * calls))
    clock = time.perf_counter_ns
    for number in range(calls):
        began = clock()
        call(number)
        times[number] = clock() - began
    ordered = sorted(times)
    return (
        ordered[calls // 2] / 1e3,
        ordered[calls * 99 // 100] / 1e3,
        ordered[calls * 999 // 1000] / 1e3,
        ordered[-1] / 1e3,
    )


def reporting(
    calls: int, *, url: str = "", file: str = "", output: str = "", every: float = 5.0, metrics: bool = False
) -> list[float]:
    """Percentiles of `update` with a reporter for these places."""
    for name, value in ((progress.SERVER_URL, url), (progress.FILE, file), (progress.OUTPUT_DIR, output)):
        os.environ.pop(name, None)
        if value:
            os.environ[name] = value
    with Reporter(total=calls, every=every) as reporter:
        update = reporter.update
        if metrics:
            return list(percentiles(calls, lambda step: update(step=step, loss=0.5, epoch=1, metrics=METRICS)))
        return list(percentiles(calls, lambda step: update(step=step, loss=0.5)))


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1_000_000, help="calls of each row (default: %(default)s)")
    calls = parser.parse_args().calls
    command = [sys.executable, "-I", "-S", "-c", IMPORT, str(Path(progress.__file__).parent)]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() for _ in range(9)]
    cpu, wall = (min(float(run[place]) for run in runs) for place in (0, 1))
    print(f"import of the file alone: {cpu:.1f} ms of CPU, {wall:.1f} ms (budget: 30)")
    print(f"{'update, microseconds':46} {'median':>8} {'p99':>8} {'p99.9':>8} {'max':>9} {'x bare':>7}")
    bare = percentiles(calls, lambda step: nothing(step, 0.5))
    rows: list[tuple[str, list[float]]] = [("a function that does nothing", list(bare))]
    with tempfile.TemporaryDirectory() as folder, black_hole() as url:
        file = f"{folder}/progress.json"
        rows.append(("nothing configured", reporting(calls)))
        rows.append(("file each 5 s", reporting(calls, file=file)))
        rows.append(("file each 0.1 s", reporting(calls, file=file, every=0.1)))
        rows.append(("file each 5 s, and each value", reporting(calls, file=file, output=folder)))
        rows.append(("server drops packets", reporting(calls, url=url)))
        rows.append(("server drops packets, file, 5 metrics", reporting(calls, url=url, file=file, metrics=True)))
    for name, figures in rows:
        print(f"{name:46}", *(f"{figure:8.2f}" for figure in figures), f"{figures[0] / bare[0]:7.1f}")


if __name__ == "__main__":
    main()
