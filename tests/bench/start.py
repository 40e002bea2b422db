# SPDX-License-Identifier: Apache-2.0
"""From nothing to ready: how long a manager takes to start, and what it holds in memory when nothing happens.

First, what the import of an operator costs, as each of its commands and tests pays it.

Each start is a new process with token credentials and warm bytecode; ready means that `/readyz` says so. Measured with
and without admission, beside a Python that starts and imports nothing.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.machine import budget
from tests.managers import COMMAND
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.build import provide
from trainwright.controller.runtime.testing.ports import free_port

ROOT = Path(__file__).parents[2]
POLL_SECONDS = 0.005
READY_SECONDS = 60.0
IDLE_SECONDS = 5.0
SETTLE_SECONDS = 10.0


class Start(NamedTuple):
    """One start."""

    seconds: float
    """Until it was ready."""
    cpu: float
    """Seconds of CPU until then, which other work on the machine changes less."""
    memory: int
    """Resident, in KiB."""


def cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def is_ready(port: int) -> bool:
    """Whether the manager answers that it is ready."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def start(control_plane: ControlPlane, *, admission: bool, idle: bool = False) -> Start:
    """Start a manager, wait until it is ready (if `idle`, and a while longer), and end it."""
    health = free_port()
    configuration = control_plane.folder / "start.json"
    configuration.write_text(json.dumps({"health": {"healthProbeBindAddress": f"127.0.0.1:{health}"}}))
    command = [*COMMAND, f"--config={configuration}", f"--kubeconfig={control_plane.kubeconfig}"]
    if admission:
        command.append(f"--webhook-url=https://127.0.0.1:{free_port()}")
    with (control_plane.folder / "start.log").open("wb") as log:
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            while not is_ready(health):
                if process.poll() is not None or time.perf_counter() - begin > READY_SECONDS:
                    raise SystemExit(f"error: the manager did not start: {Path(log.name).read_text()}")
                time.sleep(POLL_SECONDS)
            seconds = time.perf_counter() - begin
            cpu = cpu_seconds(process.pid)
            if idle:
                time.sleep(IDLE_SECONDS)
            status = Path(f"/proc/{process.pid}/status").read_text()
        finally:
            process.terminate()
            process.wait()
    memory = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return Start(seconds, cpu, memory)


def bare() -> float:
    """Seconds that Python itself takes."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", ""], check=True)
    return time.perf_counter() - begin


def imported() -> float:
    """Seconds of CPU of a process that imports what an operator imports, and makes an `App`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = "from trainwright.controller.runtime import App, Context; App('web')"
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=7, help="starts of each kind (default: %(default)s)")
    starts: int = parser.parse_args().starts
    python = statistics.median(bare() for _ in range(starts))
    print(
        f"import of an operator: best CPU {min(imported() for _ in range(starts)):.2f} s ({budget(0.35)})", flush=True
    )
    with ControlPlane(
        crds=[ROOT / "config" / "crd", provide(["jobset-manager"]).manifests["jobset-crd.yaml"]]
    ) as plane:
        time.sleep(SETTLE_SECONDS)  # an API server that has just started has work of its own
        for admission in (False, True):
            start(plane, admission=admission)  # warms the bytecode
            found = [start(plane, admission=admission) for _ in range(starts)]
            seconds = statistics.median(one.seconds for one in found)
            memory = start(plane, admission=admission, idle=True).memory
            print(
                f"start to ready {'with' if admission else 'without'} admission: {seconds:.2f} s, "
                f"best {min(found).seconds:.2f} s ({budget(1.0)}), {seconds / python:.0f} times a bare Python; "
                f"CPU {statistics.median(one.cpu for one in found):.2f} s; idle memory {memory / 1024:.0f} MiB"
            )


if __name__ == "__main__":
    main()
