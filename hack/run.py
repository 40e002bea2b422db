# SPDX-License-Identifier: Apache-2.0
"""`make run`: starts a whole control plane on this machine, says how to use it, and stays until Ctrl-C."""

import signal
import sys
import threading
import time

from trainwright.controller.runtime.testing import ControlPlane, ControlPlaneError


def main() -> int:
    """Exit code 0 after Ctrl-C or SIGTERM, 1 when the control plane could not be started or a program of it ended."""
    stop = threading.Event()
    began = time.monotonic()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(0))
    print("starting the control plane …", flush=True)
    try:
        with ControlPlane.complete() as control_plane:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: stop.set())
            print(f"ready after {time.monotonic() - began:.1f} s")
            for name, component in control_plane.components.items():
                print(f"  {name:<24} log: {component.log}")
            print(f"\nUse it from another terminal; kubectl is at {control_plane.kubectl_path}:\n")
            print(f"  export KUBECONFIG={control_plane.kubeconfig}")
            print("  kubectl get nodes\n\nCtrl-C stops it and deletes its folder.", flush=True)
            while not stop.wait(1.0):
                for name, component in control_plane.components.items():
                    if not component.running:
                        lines = "\n".join(f"  {line}" for line in component.last_log_lines())
                        print(f"error: {name} ended; its last lines:\n{lines}", file=sys.stderr)
                        return 1
            print("stopping …", flush=True)
    except ControlPlaneError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
