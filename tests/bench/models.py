# SPDX-License-Identifier: Apache-2.0
"""What models cost: import, decode, encode, copy, default; beside plain JSON and copy.deepcopy, in the same run.

    python tests/bench/models.py

The best of several rounds is printed, in microseconds of CPU time, and ratios within the run; the cyclic garbage
collector is left as it is.
"""

import argparse
import copy
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from trainwright.api.base import Struct
from trainwright.api.trainer.v1alpha1 import TrainingRuntime, TrainJob

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 7

IMPORT = """
import resource, sys, time
import asyncio, json, msgspec
def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before, started = memory(), time.process_time()
for package in sys.argv[1:]:
    __import__("trainwright.api." + package)
print((time.process_time() - started) * 1000, memory() - before)
"""
PACKAGES = (
    "trainer.v1alpha1",
    "config.v1alpha1",
    "jobset.v1alpha2",
    "scheduling.v1alpha1",
    "volcano.v1beta1",
    "kubernetes.core.v1",
    "kubernetes.batch.v1",
    "kubernetes.meta.v1",
    "kubernetes.coordination.v1",
    "kubernetes.events.v1",
    "kubernetes.admission.v1",
    "kubernetes.admissionregistration.v1",
)


def train_job() -> dict[str, Any]:
    """A TrainJob as a server sends it: patches, status, managed fields."""
    patch = {
        "manager": "example.com/tuner",
        "time": "2026-11-20T08:30:00Z",
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [_patched("node"), _patched("launcher")]}}},
    }
    counters = {"ready": 1, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": _metadata("job"),
        "spec": {
            "runtimeRef": {"name": "torch", "kind": "ClusterTrainingRuntime", "apiGroup": "trainer.kubeflow.org"},
            "trainer": {
                "image": "example/trainer:1",
                "command": ["torchrun"],
                "args": ["train.py", "--epochs", "3"],
                "numNodes": 4,
                "env": [{"name": f"VARIABLE_{index}", "value": str(index)} for index in range(10)],
                "resourcesPerNode": {"limits": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": 8}},
            },
            "runtimePatches": [patch],
            "suspend": False,
            "managedBy": "trainer.kubeflow.org/trainjob-controller",
        },
        "status": {
            "conditions": [
                {
                    "type": "Suspended",
                    "status": "False",
                    "reason": "Resumed",
                    "message": "resumed",
                    "lastTransitionTime": "2026-11-20T08:30:00Z",
                }
            ],
            "jobsStatus": [{"name": name, **counters} for name in ("dataset-initializer", "model-initializer", "node")],
        },
    }


def training_runtime() -> dict[str, Any]:
    """A runtime with three replicated jobs."""
    jobs = [_job(name) for name in ("dataset-initializer", "model-initializer", "node")]
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": _metadata("torch"),
        "spec": {"mlPolicy": {"numNodes": 1, "torch": {}}, "template": {"spec": {"replicatedJobs": jobs}}},
    }


def _metadata(name: str) -> dict[str, Any]:
    owned: dict[str, Any] = {f"f:field{index}": {".": {}, 'k:{"name":"a"}': {"f:name": {}}} for index in range(10)}
    return {
        "name": name,
        "namespace": "default",
        "uid": "6b9d2c0e-8a4f-4f43-9d9f-0f0c1f1a2b3c",
        "resourceVersion": "123456",
        "generation": 2,
        "creationTimestamp": "2026-11-20T08:30:00Z",
        "labels": {"example.com/team": "research"},
        "managedFields": [
            {
                "manager": "kubectl",
                "operation": "Apply",
                "time": "2026-11-20T08:30:00Z",
                "fieldsType": "FieldsV1",
                "fieldsV1": owned,
            }
        ],
    }


def _patched(name: str) -> dict[str, Any]:
    pod = {"nodeSelector": {"zone": "a"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    return {"name": name, "template": {"spec": {"template": {"spec": pod}}}}


def _job(name: str) -> dict[str, Any]:
    container = {
        "name": name,
        "image": "example/image:1",
        "command": ["python", "-m", "train"],
        "env": [{"name": f"VARIABLE_{index}", "value": str(index)} for index in range(8)],
        "ports": [{"containerPort": 29500}],
        "resources": {"requests": {"cpu": "4", "memory": "16Gi"}, "limits": {"nvidia.com/gpu": 1}},
        "volumeMounts": [{"name": "workspace", "mountPath": "/workspace"}],
    }
    volumes = [{"name": "workspace", "persistentVolumeClaim": {"claimName": "data"}}]
    pod = {"containers": [container], "volumes": volumes, "restartPolicy": "Never"}
    labels = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": name}}
    return {"name": name, "template": {"metadata": labels, "spec": {"template": {"spec": pod}}}}


def microseconds(action: Callable[[], object], times: int) -> float:
    """CPU time of one call, the best of several rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.process_time()
        for _ in range(times):
            action()
        best = min(best, time.process_time() - started)
    return best / times * 1e6


def without_our_hook(value: Struct) -> Callable[[], object]:
    """copy.deepcopy as it would be if structs did not know how to copy themselves."""

    def action() -> object:
        hook = Struct.__deepcopy__
        del Struct.__deepcopy__
        try:
            return copy.deepcopy(value)
        finally:
            Struct.__deepcopy__ = hook  # type: ignore[method-assign]

    return action


def measure(document: dict[str, Any], kind: type[Struct], times: int) -> None:
    text = json.dumps(document).encode()
    decoder, encoder = msgspec.json.Decoder(kind), msgspec.json.Encoder()
    value = decoder.decode(text)
    defaulted, same = value.deepcopy(), value.deepcopy()
    figures = {
        "decode": microseconds(lambda: decoder.decode(text), times),
        "decode, json.loads": microseconds(lambda: json.loads(text), times),
        "encode": microseconds(lambda: encoder.encode(value), times),
        "encode, json.dumps": microseconds(lambda: json.dumps(document), times),
        "deepcopy": microseconds(value.deepcopy, times),
        "deepcopy, copy.deepcopy without our hook": microseconds(without_our_hook(value), max(times // 10, 1)),
        "deepcopy, copy.deepcopy of plain data": microseconds(lambda: copy.deepcopy(document), max(times // 10, 1)),
        "set_defaults (nothing left to do)": microseconds(defaulted.set_defaults, times),
        "equality with a copy": microseconds(lambda: value == same, times),
    }
    print(f"{kind.__name__}, {len(text)} bytes")
    for name, figure in figures.items():
        print(f"  {name:<42} {figure:9.1f} us")
    ratio = figures["deepcopy, copy.deepcopy without our hook"] / figures["deepcopy"]
    print(f"  deepcopy is {ratio:.1f} times faster than copy.deepcopy (budget: 10)")
    print(f"  decode takes {figures['decode'] / figures['decode, json.loads']:.2f} times json.loads")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=2000, help="calls per round (default: 2000)")
    options = parser.parse_args()

    runs = [
        subprocess.run(
            [sys.executable, "-c", IMPORT, *PACKAGES], capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(ROUNDS)
    ]
    milliseconds, megabytes = min(float(run[0]) for run in runs), min(float(run[1]) for run in runs)
    print(f"import of the models of a manager: {milliseconds:.0f} ms of CPU, {megabytes:.1f} MiB")
    measure(train_job(), TrainJob, options.times)
    measure(training_runtime(), TrainingRuntime, options.times)
    started = time.monotonic()
    subprocess.run([sys.executable, "-m", "trainwright.codegen", "--check"], cwd=ROOT, capture_output=True, check=True)
    print(f"generate: {time.monotonic() - started:.1f} s, start of Python included (budget: 15)")


if __name__ == "__main__":
    main()
