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
from trainwright.plugins.testing import replicated_job, runtime_document

PIPELINE = Pipeline(Registry.load())
FACTS = ClusterFacts({}, offline=True)
STEPS = {"node": "trainer", "dataset-initializer": "dataset-initializer"}


def runtime(*names: str) -> TrainingRuntime:
    jobs = [
        replicated_job(name, step=STEPS.get(name, ""), completionMode="Indexed" if name in STEPS else "NonIndexed")
        for name in names
    ]
    made = msgspec.convert(runtime_document("r", *jobs), TrainingRuntime)
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
