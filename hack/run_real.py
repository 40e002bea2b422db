# SPDX-License-Identifier: Apache-2.0
"""`make run CLUSTER=real`: a real control plane here with our manager, and a TrainJob followed to its end.

The control plane is real; KWOK simulates nodes and pods. The cluster stays up until Ctrl-C.
"""

import argparse
import json
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.managers import MANAGER, start_manager
from trainwright.controller.cli.versions import public_objects
from trainwright.controller.runtime.testing import ControlPlane, ControlPlaneError

ROOT = Path(__file__).resolve().parent.parent
CRDS = ROOT / "config" / "crd"
RUNTIMES = ROOT / "config" / "runtimes"
SAMPLE = ROOT / "config" / "samples" / "02-torch.yaml"
JOB = "torch"
JOB_SECONDS = 120.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    """Exit code 0 after Ctrl-C or SIGTERM, 1 when a program did not start or ended, or the job did not complete."""
    parser = argparse.ArgumentParser(
        prog="python -m hack.run_real", description="Run a cluster, our manager and a TrainJob here."
    )
    parser.add_argument("--port", type=int, help="port of the API server on 127.0.0.1 (default: a free one)")
    arguments = parser.parse_args()
    on_signals(lambda: sys.exit(0))
    try:
        print("starting the control plane …", flush=True)
        began = time.monotonic()
        with ControlPlane.complete(crds=[CRDS], port=arguments.port) as control_plane:
            print(f"control plane: ready after {time.monotonic() - began:.1f} s", flush=True)
            control_plane.apply(*public_objects())
            start_manager(control_plane, webhooks=True)
            print(f"manager: running; its log is {control_plane.components[MANAGER].log}", flush=True)
            control_plane.kubectl("apply", "--server-side", f"--kustomize={RUNTIMES}")
            print(f"{RUNTIMES.relative_to(ROOT)}: applied", flush=True)
            train(control_plane, SAMPLE, JOB, began)
            print(f"\n{control_plane.kubectl('get', 'trainjobs,jobsets,jobs,pods')}")
            print(instructions(control_plane), flush=True)
            stay(control_plane)
    except ControlPlaneError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def on_signals(act: Callable[[], object]) -> None:
    for number in SIGNALS:
        signal.signal(number, lambda *_: act())


def train(control_plane: ControlPlane, sample: Path, name: str, began: float) -> None:
    """Apply a sample, and print a line for each change of its TrainJob until that is Complete.

    `began` is a time of `time.monotonic`. Raises ControlPlaneError: the job fails, a program ends, or the time is up.
    """
    control_plane.kubectl("apply", "--server-side", f"--filename={sample}")
    print(f"{sample.relative_to(ROOT)}: applied; following TrainJob {name}", flush=True)
    deadline = time.monotonic() + JOB_SECONDS
    last = ""
    while True:
        job = json.loads(control_plane.kubectl("get", "trainjob", name, "--output=json"))
        line, finished = describe(job)
        if line != last:
            last = line
            print(f"  {time.monotonic() - began:5.1f} s  {line}", flush=True)
        if finished == "Complete":
            return
        if finished:
            raise ControlPlaneError(f"TrainJob {name} is {finished}: {line}")
        fail_if_ended(control_plane)
        if time.monotonic() > deadline:
            raise ControlPlaneError(f"TrainJob {name} is not Complete after {JOB_SECONDS:.0f} s: {line}")
        time.sleep(0.1)


def describe(job: dict[str, Any]) -> tuple[str, str]:
    """One line about a TrainJob, and the condition that ended it (empty while it runs)."""
    status = job.get("status", {})
    true = [condition for condition in status.get("conditions", []) if condition["status"] == "True"]
    finished = next((condition["type"] for condition in true if condition["type"] in {"Complete", "Failed"}), "")
    counts = [
        f"{entry['name']}: {', '.join(f'{entry[name]} {name}' for name in ('active', 'ready', 'succeeded', 'failed'))}"
        for entry in status.get("jobsStatus", [])
    ]
    words = [f"{condition['type']} ({condition['reason']}: {condition['message']})" for condition in true] or (
        ["running"] if counts else ["created"]
    )
    return "; ".join([*words, *counts]), finished


def instructions(control_plane: ControlPlane) -> str:
    return f"""Use the cluster from another terminal:

  export KUBECONFIG={shlex.quote(str(control_plane.kubeconfig))}
  export PATH={shlex.quote(str(control_plane.kubectl_path.parent))}:$PATH
  kubectl get clustertrainingruntimes
  kubectl get trainjobs,jobsets,jobs,pods
  kubectl delete trainjob {JOB} && kubectl apply -f {SAMPLE.relative_to(ROOT)}

Ctrl-C stops everything and deletes the folder {control_plane.folder}."""


def stay(control_plane: ControlPlane) -> None:
    """Wait for the signal to stop. Raises ControlPlaneError: a program ended."""
    stop = threading.Event()
    on_signals(stop.set)
    while not stop.wait(1.0):
        fail_if_ended(control_plane)
    print("stopping …", flush=True)


def fail_if_ended(control_plane: ControlPlane) -> None:
    """Raise ControlPlaneError with the last log lines of a program that ended."""
    for name, component in control_plane.components.items():
        if not component.running:
            lines = "\n".join(f"  {line}" for line in component.last_log_lines())
            raise ControlPlaneError(f"{name} ended; its last lines:\n{lines}")


if __name__ == "__main__":
    raise SystemExit(main())
