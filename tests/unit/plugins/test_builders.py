# SPDX-License-Identifier: Apache-2.0
"""Runtimes in wire form, for tests on a cluster."""

import msgspec

from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainingRuntime
from trainwright.api.trainer.v1alpha1.constants import LABEL_ANCESTOR_STEP
from trainwright.plugins.testing import RUNTIME, replicated_job, run, runtime, runtime_document, train_job


def test_the_smallest_one_makes_what_that_of_the_units_makes() -> None:
    document = runtime_document("blueprint", replicated_job(pod={"containers": [{"name": "node", "image": "base"}]}))
    made = msgspec.convert(document, TrainingRuntime)
    assert made.metadata is not None
    made.metadata.namespace, made.metadata.uid = "team", None
    made.set_defaults()
    wanted, found = (run(job=train_job(), runtime=one).object("JobSet") for one in (runtime(RUNTIME), made.typed()))
    assert found == wanted


def test_it_has_what_is_given() -> None:
    jobs = (replicated_job("data", step="dataset-initializer"), replicated_job("other"), replicated_job(backoffLimit=0))
    document = runtime_document(
        "r", *jobs, namespace="", policy={"torch": {}}, jobset={"failurePolicy": {"maxRestarts": 1}}, podGroupPolicy={}
    )
    assert (document["kind"], document["metadata"]) == ("ClusterTrainingRuntime", {"name": "r"})
    spec = document["spec"]
    assert spec["mlPolicy"] == {"numNodes": 1, "torch": {}}
    assert spec["podGroupPolicy"] == {}
    inner = spec["template"]["spec"]
    assert inner["failurePolicy"] == {"maxRestarts": 1}
    found = {one["name"]: one["template"] for one in inner["replicatedJobs"]}
    steps = {name: one.get("metadata", {}).get("labels", {}).get(LABEL_ANCESTOR_STEP) for name, one in found.items()}
    assert steps == {"data": "dataset-initializer", "other": None, "node": "trainer"}
    assert found["node"]["spec"]["backoffLimit"] == 0
    msgspec.convert(document, ClusterTrainingRuntime)
