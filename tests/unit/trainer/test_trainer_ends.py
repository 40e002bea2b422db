# SPDX-License-Identifier: Apache-2.0
"""When a missing JobSet means that the training is over, and when it is made again."""

from typing import Any

import msgspec
import pytest

from tests.assertions import does_not_raise
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import Secret
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.trainer.build.objects import EndUnknown, check_end
from trainwright.plugins.contract import Component, Reference

JOBSET = Reference(JobSet.RESOURCE, "n", "j")
RAN = {"jobsStatus": [{"name": "node", "active": 0, "ready": 0, "succeeded": 1, "failed": 0, "suspended": 0}]}
WAITED = {"jobsStatus": [{"name": "node", "active": 0, "ready": 0, "succeeded": 0, "failed": 0, "suspended": 1}]}


def job(status: dict[str, Any] | None, **spec: Any) -> TrainJob:
    document = {"metadata": {"name": "j", "namespace": "n"}, "spec": {"runtimeRef": {"name": "r"}, **spec}}
    return msgspec.convert({**document, **({"status": status} if status else {})}, TrainJob)


def component(kind: Any, name: str, spec: dict[str, Any]) -> Component:
    document = {
        "apiVersion": kind.RESOURCE.api_version,
        "kind": kind.RESOURCE.kind,
        "metadata": {"name": name, "namespace": "n"},
        "spec": spec,
    }
    return Component(resource=kind.RESOURCE, document=document)


SHORT_LIVED = component(JobSet, "j", {"ttlSecondsAfterFinished": 0})


def test_a_jobset_that_deleted_itself_ended_the_job() -> None:
    with pytest.raises(EndUnknown, match=r"^JobSet j deletes itself 0 s after .* delete this TrainJob and create it"):
        check_end(job(RAN), [SHORT_LIVED], [JOBSET], {JOBSET: None})


@pytest.mark.parametrize(
    ("of", "components", "found"),
    [
        (job(RAN), [component(JobSet, "j", {})], None),
        (job(RAN), [SHORT_LIVED], {"metadata": {"name": "j"}}),
        (job(WAITED), [SHORT_LIVED], None),
        (job(None), [SHORT_LIVED], None),
        (job(RAN, suspend=True), [SHORT_LIVED], None),
        (job(RAN), [component(Secret, "j", {"ttlSecondsAfterFinished": 0})], None),
    ],
    ids=["no time to live", "it is there", "no pod ran", "no status", "suspended", "not what tells of the end"],
)
def test_any_other_job_is_built(of: TrainJob, components: list[Component], found: Any) -> None:
    with does_not_raise():
        check_end(of, components, [JOBSET], {JOBSET: found})
