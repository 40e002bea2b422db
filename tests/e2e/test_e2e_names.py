# SPDX-License-Identifier: Apache-2.0
"""A name is warned of exactly when JobSet refuses what would be made of it."""

from typing import Any

import msgspec
import pytest

from trainwright.api.trainer.v1alpha1 import TrainingRuntime, TrainJob
from trainwright.controller.runtime.testing import ControlPlane, ControlPlaneError
from trainwright.plugins.contract import ClusterFacts
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry

PIPELINE = Pipeline(Registry.load())
FACTS = ClusterFacts({}, offline=True)
STEPS = {"node": "trainer", "dataset-initializer": "dataset-initializer"}


def runtime(*names: str) -> TrainingRuntime:
    jobs: list[dict[str, Any]] = []
    for name in names:
        labels = {"trainer.kubeflow.org/trainjob-ancestor-step": STEPS[name]} if name in STEPS else {}
        pod = {"containers": [{"name": name, "image": "example.com/none"}]}
        spec = {"template": {"spec": pod}, "completionMode": "Indexed" if labels else "NonIndexed"}
        jobs.append({"name": name, "template": {"metadata": {"labels": labels}, "spec": spec}})
    whole = {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": jobs}}}
    made = msgspec.convert({"metadata": {"name": "r", "namespace": "default"}, "spec": whole}, TrainingRuntime)
    made.set_defaults()
    return made


@pytest.mark.parametrize(
    ("names", "nodes", "longest"),
    [
        (("node",), 1, 63 - len("-node-0-0-abcde")),
        (("node",), 11, 63 - len("-node-0-10-abcde")),
        (("node",), 1000, 63 - len("-node-0-999-abcde")),
        (("dataset-initializer", "node"), 1, 63 - len("-dataset-initializer-0-0-abcde")),
        # Its pods have no numbers, and Kubernetes cuts their names itself.
        (("something-else-beside", "node"), 1, 63 - len("-something-else-beside-0")),
    ],
)
def test_the_longest_name_that_jobset_takes(
    chain: ControlPlane, names: tuple[str, ...], nodes: int, longest: int
) -> None:
    for length in (longest, longest + 1):
        spec = {"runtimeRef": {"kind": "TrainingRuntime", "name": "r"}, "trainer": {"numNodes": nodes}}
        metadata = {"name": "j" * length, "namespace": "default", "uid": "00000000-0000-0000-0000-000000000000"}
        job = msgspec.convert({"metadata": metadata, "spec": spec}, TrainJob)
        job.set_defaults()
        (jobset,) = (
            component.document
            for component in PIPELINE.begin(job, runtime(*names)).render(FACTS).components
            if component.document["kind"] == "JobSet"
        )
        warned = PIPELINE.begin(job, runtime(*names)).validate(FACTS).warnings
        assert bool(warned) == bool(refusal(chain, jobset)) == (length > longest), (warned, refusal(chain, jobset))


def refusal(chain: ControlPlane, document: dict[str, Any]) -> str:
    try:
        chain.stored.create(document, dry_run=True)
    except ControlPlaneError as error:
        return str(error)
    return ""
