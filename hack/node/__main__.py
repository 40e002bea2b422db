# SPDX-License-Identifier: Apache-2.0
"""`python -m hack.node`: provides what a real node needs. `run` starts one, deploys the manager, and trains on it.

`--ready` builds nothing: it exits with 0 if all is in the cache, else with 1, and prints the reason.
"""

import argparse
import contextlib
import sys
import time

from hack.node import debian, images
from hack.node.cluster import PROGRAMS, NodeCluster
from hack.node.spaces import ROOT, cache, step, why_not
from hack.run_real import on_signals, stay, train
from trainwright.controller.runtime.testing.build import look_up
from trainwright.controller.runtime.testing.tools import TOOLS, ControlPlaneError

SAMPLE = ROOT / "config" / "samples" / "09-xgboost.yaml"
JOB = "xgboost-digits"


def main() -> int:
    """Exit code 0, or 1 with a message."""
    parser = argparse.ArgumentParser(prog="python -m hack.node", description="A real node on this machine.")
    parser.add_argument("command", nargs="?", choices=["provide", "run"], default="provide")
    parser.add_argument("--ready", action="store_true", help="only say whether all is there")
    parser.add_argument("--port", type=int, help="port of the API server on 127.0.0.1 (default: a free one)")
    arguments = parser.parse_args()
    if arguments.ready:
        reason = missing()
        print(reason or "the node's programs and images are in the cache")
        return 1 if reason else 0
    on_signals(lambda: sys.exit(0))
    try:
        if arguments.command == "run":
            run(arguments.port)
        else:
            provide()
    except ControlPlaneError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def missing() -> str:
    """Why no node can start at once; empty if it can."""
    if reason := why_not():
        return reason
    if look_up([*(tool for tool in TOOLS if tool != "kwok"), *PROGRAMS], None) is None:
        return "the programs of the node are not in the cache"
    made = {"root": debian.node_folder(), "images": images.store_folder()}
    absent = [name for name, folder in made.items() if not folder.is_dir()]
    return f"not in the cache {cache()}: {', '.join(absent)}; `make test CLUSTER=node` makes them" if absent else ""


def provide() -> None:
    """Make what is missing."""
    NodeCluster().provide()
    print(f"{'image':<24} {images.ours()}")
    print(f"{'cache':<24} {cache()}")


def run(port: int | None) -> None:
    """A cluster with our manager, a training, and then whatever the user does, until Ctrl-C."""
    provide()
    began = time.monotonic()
    print("starting the node …", flush=True)
    with NodeCluster(port=port) as cluster:
        print(f"node: ready after {time.monotonic() - began:.1f} s", flush=True)
        with step("make deploy"):
            cluster.deploy()
        train(cluster, SAMPLE, JOB, began)
        with contextlib.suppress(ControlPlaneError):  # the pods may be deleted already
            print(cluster.kubectl("logs", "--prefix", f"--selector=jobset.sigs.k8s.io/jobset-name={JOB}"))
        print(
            f"""The cluster has one node, with real containers. From another terminal:

  export KUBECONFIG={cluster.folder / "admin.kubeconfig"} PATH={cluster.kubectl_path.parent}:$PATH
  kubectl get trainjobs,pods --all-namespaces

Ctrl-C ends it, and nothing of it stays but the cache {cache()}.""",
            flush=True,
        )
        stay(cluster)


if __name__ == "__main__":
    raise SystemExit(main())
