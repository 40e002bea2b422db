# SPDX-License-Identifier: Apache-2.0
"""From the JobSet back to the TrainJob's status, and facts that are announced."""

from typing import Any

import msgspec
import pytest

from tests import builders
from tests.builders import condition
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.trainer.v1alpha1 import TrainJobStatus
from trainwright.plugins.contract import ClusterFacts, FactUnavailable, Reference
from trainwright.plugins.contract.facts import Unreadable
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry, built_in
from trainwright.plugins.testing import runtime, train_job

PIPELINE = Pipeline(Registry.load(candidates=built_in()))
TIME = "2026-01-02T03:04:05Z"
COMPLETED = condition("Completed", at=TIME)
JOBSET = Reference(JobSet.RESOURCE, "team", "job")


def jobset(*, suspend: bool | None = None, status: Any = None, of: str = "u-1") -> JobSet:
    """A JobSet that the TrainJob with the uid `of` controls; `u-1` is the uid of `train_job`."""
    spec: dict[str, Any] = {} if suspend is None else {"suspend": suspend}
    return builders.jobset(name="job", owner=builders.train_job("job", uid=of), status=status, **spec)


@pytest.mark.parametrize("suspend", [False, True])
def test_a_jobset_of_somebody_else_is_neither_believed_nor_passed_over(suspend: bool) -> None:
    # The document comes out whatever the other one's state, so that applying it says that the name is taken.
    facts = ClusterFacts({JOBSET: jobset(suspend=suspend, status={"restarts": 0, "conditions": [COMPLETED]}, of="u-2")})

    (component,) = PIPELINE.begin(train_job(), runtime()).render(facts).components

    assert component.document["kind"] == "JobSet"
    assert PIPELINE.begin_status(train_job()).status(facts) is None


def test_facts_are_announced_and_a_failed_read_can_be_retried() -> None:
    job = train_job()
    facts = ClusterFacts({JOBSET: Unreadable("connection lost")})

    assert JOBSET in PIPELINE.begin(job, runtime()).references()
    with pytest.raises(FactUnavailable, match="JobSet team/job cannot be read: connection lost"):
        PIPELINE.begin(job, runtime()).render(facts)
    with pytest.raises(FactUnavailable, match="not announced"):
        PIPELINE.begin(job, runtime()).render(ClusterFacts())


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([("Completed", "True")], [("Complete", "True")]),
        ([("Failed", "True")], [("Failed", "True")]),
        ([("Suspended", "False"), ("StartupPolicyCompleted", "True"), ("Failed", "False")], []),
    ],
)
def test_terminal_conditions_are_copied_with_their_time(
    conditions: list[tuple[str, str]], expected: list[tuple[str, str]]
) -> None:
    live = jobset(status={"conditions": [condition(type_, status, at=TIME) for type_, status in conditions]})

    status = PIPELINE.begin_status(train_job()).status(ClusterFacts({JOBSET: live}))

    assert status is not None
    assert [(c.type, c.status) for c in status.conditions or ()] == expected
    assert all(c.last_transition_time == TIME and c.reason == "R" for c in status.conditions or ())


def test_counters_are_copied_in_order_and_the_rest_of_the_status_stays() -> None:
    counters = {"ready": 0, "succeeded": 1, "failed": 2, "active": 3, "suspended": 4}
    live = jobset(status={"replicatedJobsStatus": [{"name": name, **counters} for name in ("b", "a")]})
    job = train_job()
    job.status = msgspec.convert({"trainerStatus": {"progressPercentage": 7, "lastUpdatedTime": TIME}}, TrainJobStatus)

    status = PIPELINE.begin_status(job).status(ClusterFacts({JOBSET: live}))

    assert msgspec.to_builtins(status) == {
        "jobsStatus": [{"name": "b", **counters}, {"name": "a", **counters}],
        "trainerStatus": {"progressPercentage": 7, "lastUpdatedTime": TIME},
    }


def test_without_a_jobset_nothing_is_said() -> None:
    assert PIPELINE.begin_status(train_job()).status(ClusterFacts({JOBSET: None})) is None
