# SPDX-License-Identifier: Apache-2.0
"""When a missing JobSet means that the training is over, and when it is made again."""

from typing import Any

import pytest

from tests.assertions import does_not_raise
from tests.builders import counts, train_job
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import Secret
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime.testing.objects import build
from trainwright.controller.trainer.build.objects import EndUnknown, check_end
from trainwright.plugins.contract import Component, Reference

JOBSET = Reference(JobSet.RESOURCE, "n", "j")
RAN = {"jobsStatus": [counts(succeeded=1)]}
WAITED = {"jobsStatus": [counts(suspended=1)]}


def component(kind: Any, name: str, spec: dict[str, Any]) -> Component:
    return Component(resource=kind.RESOURCE, document=build(kind.RESOURCE, name, "n", spec=spec))


SHORT_LIVED = component(JobSet, "j", {"ttlSecondsAfterFinished": 0})


def test_a_jobset_that_deleted_itself_ended_the_job() -> None:
    with pytest.raises(EndUnknown, match=r"^JobSet j deletes itself 0 s after .* delete this TrainJob and create it"):
        check_end(train_job(status=RAN), [SHORT_LIVED], [JOBSET], {JOBSET: None})


@pytest.mark.parametrize(
    ("of", "components", "found"),
    [
        (train_job(status=RAN), [component(JobSet, "j", {})], None),
        (train_job(status=RAN), [SHORT_LIVED], {"metadata": {"name": "j"}}),
        (train_job(status=WAITED), [SHORT_LIVED], None),
        (train_job(), [SHORT_LIVED], None),
        (train_job(status=RAN, suspend=True), [SHORT_LIVED], None),
        (train_job(status=RAN), [component(Secret, "j", {"ttlSecondsAfterFinished": 0})], None),
    ],
    ids=["no time to live", "it is there", "no pod ran", "no status", "suspended", "not what tells of the end"],
)
def test_any_other_job_is_built(of: TrainJob, components: list[Component], found: Any) -> None:
    with does_not_raise():
        check_end(of, components, [JOBSET], {JOBSET: found})
