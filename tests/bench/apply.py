# SPDX-License-Identifier: Apache-2.0
"""Server-side apply in the local cluster's API server: what one request on a JobSet costs, without HTTP and storage.

The best of several rounds is printed, in milliseconds of CPU time, and the ratio to decoding and encoding the object
with its managed fields. The local cluster is to create 150 TrainJobs a second, each with a JobSet and its status.
"""

import argparse
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from trainwright.api.manifest import load
from trainwright.controller.local.apiserver.merge.fieldmanager import custom_resource_managers
from trainwright.controller.runtime.testing.build import provide

CALLS = 100
NOW = datetime(2026, 1, 1, tzinfo=UTC)
VERSION = "jobset.x-k8s.io/v1alpha2"


def replicated_job(name: str) -> dict[str, Any]:
    container = {
        "name": "node",
        "image": "example/train:1",
        "command": ["python", "train.py"],
        "env": [{"name": f"SETTING_{index}", "value": str(index)} for index in range(12)],
        "ports": [{"containerPort": 29500, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "4", "memory": "16Gi"}, "limits": {"nvidia.com/gpu": 2}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    pod = {
        "metadata": {"labels": {"a": "b", "c": "d"}},
        "spec": {"containers": [container], "volumes": [{"name": "data", "emptyDir": {}}], "restartPolicy": "Never"},
    }
    job = {"parallelism": 4, "completions": 4, "backoffLimit": 0, "template": pod}
    return {"name": name, "replicas": 1, "template": {"metadata": {"labels": {"a": "b"}}, "spec": job}}


def jobset() -> dict[str, Any]:
    owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "job", "uid": "u"}
    return {
        "apiVersion": VERSION,
        "kind": "JobSet",
        "metadata": {"name": "job", "namespace": "n", "ownerReferences": [{**owner, "controller": True}]},
        "spec": {
            "replicatedJobs": [replicated_job("launcher"), replicated_job("node")],
            "suspend": False,
            "network": {"publishNotReadyAddresses": True},
            "successPolicy": {"operator": "All", "targetReplicatedJobs": ["launcher"]},
        },
    }


def copied(document: dict[str, Any]) -> dict[str, Any]:
    """As it comes from the wire: no branch is shared."""
    made: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document))
    return made


def cases(spec: dict[str, Any]) -> dict[str, Callable[[], object]]:
    managers = custom_resource_managers(spec)
    main, status_endpoint = managers[VERSION, ""], managers[VERSION, "status"]
    document = jobset()
    live = copied(main.apply(None, document, "trainer", force=True, now=NOW))
    live["metadata"]["uid"] = "u"
    counts = {"ready": 1, "succeeded": 0, "failed": 0, "active": 4, "suspended": 0}
    status = {"replicatedJobsStatus": [{"name": name, **counts} for name in ("launcher", "node")], "restarts": 0}
    running = copied(status_endpoint.update(live, {**live, "status": status}, "jobset", now=NOW))
    suspended, smaller, restarted = copied(document), copied(document), copied(running)
    suspended["spec"]["suspend"] = True
    del smaller["spec"]["network"]
    restarted["status"]["restarts"] = 1
    return {
        "create by apply": lambda: main.apply(None, document, "trainer", force=True, now=NOW),
        "create by post": lambda: main.update(None, document, "client", now=NOW),
        "apply the same": lambda: main.apply(running, document, "trainer", force=True, now=NOW),
        "apply a change": lambda: main.apply(running, suspended, "trainer", force=True, now=NOW),
        "apply less": lambda: main.apply(running, smaller, "trainer", force=True, now=NOW),
        "update the status": lambda: status_endpoint.update(running, restarted, "jobset", now=NOW),
        "decode and encode": lambda: copied(running),
    }


def milliseconds(call: Callable[[], object], rounds: int) -> float:
    call()
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(CALLS):
            call()
        best = min(best, (time.process_time() - start) * 1000 / CALLS)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help=f"rounds of {CALLS} calls each (default: %(default)s)")
    rounds = parser.parse_args().rounds
    text = provide(["jobset-manager"]).manifests["jobset-crd.yaml"].read_text()
    definition = load(text)
    start = time.process_time()
    custom_resource_managers(definition["spec"])
    print(f"{'schema compiled':20} {(time.process_time() - start) * 1000:8.3f} ms")
    measured = {name: milliseconds(call, rounds) for name, call in cases(definition["spec"]).items()}
    for name, took in measured.items():
        print(f"{name:20} {took:8.3f} ms {took / measured['decode and encode']:8.1f} x decoding and encoding")


if __name__ == "__main__":
    main()
