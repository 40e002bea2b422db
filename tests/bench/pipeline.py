# SPDX-License-Identifier: Apache-2.0
"""The pipeline: from the bytes of a TrainJob and a runtime to the bytes of the apply documents, per job.

Budget: 1.5 ms for a torch job. The ratio is to decoding and encoding alone, so that it can be compared across machines.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import msgspec

from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainJob
from trainwright.plugins.contract import OFFLINE
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry, built_in

STEP = "trainer.kubeflow.org/trainjob-ancestor-step"


def replicated_job(name: str, step: str | None) -> dict[str, Any]:
    container = {
        "name": "node",
        "image": "example/train:1",
        "command": ["python", "train.py"],
        "env": [{"name": f"SETTING_{index}", "value": str(index)} for index in range(5)],
        "resources": {"requests": {"cpu": "4", "memory": "16Gi"}, "limits": {"nvidia.com/gpu": 2}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    pod = {"containers": [container], "volumes": [{"name": "data", "emptyDir": {}}]}
    metadata = {"labels": {STEP: step}} if step else {}
    return {"name": name, "template": {"metadata": metadata, "spec": {"template": {"spec": pod}}}}


def runtime(policy: dict[str, Any], *, gang: bool = False) -> bytes:
    spec: dict[str, Any] = {"mlPolicy": {"numNodes": 4, **policy}}
    if gang:
        spec["podGroupPolicy"] = {"coscheduling": {"scheduleTimeoutSeconds": 60}}
    jobs = [replicated_job("launcher", None)] if "mpi" in policy else []
    spec["template"] = {"spec": {"replicatedJobs": [*jobs, replicated_job("node", "trainer")]}}
    return msgspec.json.encode({"metadata": {"name": "bench"}, "spec": spec})


JOB = msgspec.json.encode(
    {
        "metadata": {"name": "bench", "namespace": "default", "uid": "u"},
        "spec": {
            "runtimeRef": {"name": "bench", "kind": "ClusterTrainingRuntime", "apiGroup": "trainer.kubeflow.org"},
            "trainer": {"numNodes": 8, "image": "example/mine:1", "env": [{"name": "MODE", "value": "full"}]},
            "suspend": False,
        },
    }
)
PATCHED = msgspec.json.encode(
    {
        **msgspec.json.decode(JOB),
        "spec": {
            **msgspec.json.decode(JOB)["spec"],
            "runtimePatches": [
                {
                    "manager": "kueue.x-k8s.io/manager",
                    "trainingRuntimeSpec": {
                        "template": {
                            "spec": {
                                "replicatedJobs": [
                                    {
                                        "name": "node",
                                        "template": {
                                            "spec": {"template": {"spec": {"nodeSelector": {"pool": "a100"}}}}
                                        },
                                    }
                                ]
                            }
                        }
                    },
                }
            ],
        },
    }
)
CASES = {
    "PlainML": (runtime({}), JOB),
    "Torch": (runtime({"torch": {}}), JOB),
    "Torch with a patch": (runtime({"torch": {}}), PATCHED),
    "MPI with gang scheduling": (runtime({"mpi": {"runLauncherAsNode": False}}, gang=True), JOB),
}


def whole(pipeline: Pipeline, blueprint: bytes, job: bytes) -> int:
    """Bytes in, bytes out; returns their number."""
    decoded = msgspec.json.decode(job, type=TrainJob)
    rendering = pipeline.begin(decoded, msgspec.json.decode(blueprint, type=ClusterTrainingRuntime)).render(OFFLINE)
    return sum(len(msgspec.json.encode(component.document)) for component in rendering.components)


def decoding_alone(blueprint: bytes, job: bytes) -> int:
    decoded = msgspec.json.decode(job, type=TrainJob)
    runtime_ = msgspec.json.decode(blueprint, type=ClusterTrainingRuntime)
    return len(msgspec.json.encode(decoded)) + len(msgspec.json.encode(runtime_))


def milliseconds(call: Callable[[], int], rounds: int) -> float:
    """Median of several rounds of a hundred calls, per call."""
    call()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(100):
            call()
        times.append((time.perf_counter() - start) * 10)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="rounds of a hundred jobs each")
    rounds = parser.parse_args().rounds
    pipeline = Pipeline(Registry.load(candidates=built_in()))
    print(f"{'pipeline, per TrainJob':28} {'ms':>8} {'x decoding':>11} {'admission ms':>13}")
    for name, (blueprint, job) in CASES.items():
        took = milliseconds(lambda b=blueprint, j=job: whole(pipeline, b, j), rounds)  # type: ignore[misc]
        bare = milliseconds(lambda b=blueprint, j=job: decoding_alone(b, j), rounds)  # type: ignore[misc]
        decoded, made = (
            msgspec.json.decode(job, type=TrainJob),
            msgspec.json.decode(blueprint, type=ClusterTrainingRuntime),
        )
        checked = milliseconds(lambda d=decoded, m=made: len(pipeline.begin(d, m).validate(OFFLINE).errors), rounds)  # type: ignore[misc]
        print(f"{name:28} {took:8.3f} {took / bare:11.1f} {checked:13.3f}")


if __name__ == "__main__":
    main()
