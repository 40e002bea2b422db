# SPDX-License-Identifier: Apache-2.0
"""What is cleaned up is judged by the job that is there when its time is over; test_cleanup of the integration tests
proves the rest."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import pytest

from tests.builders import condition, train_job
from trainwright.controller.runtime import Key, Manager, RetryAfter
from trainwright.controller.trainer.assembly.cleanup import _reconcile
from trainwright.controller.trainer.job.lifetime import ANNOTATION_JOB, Lifetimes

ENDED = condition("Complete", at="2026-11-25T10:00:00Z")


@pytest.mark.parametrize(
    ("manager", "deleted"),
    [(None, ["a"]), ("trainer.kubeflow.org/trainjob-controller", ["a"]), ("kueue.x-k8s.io/multikueue", [])],
)
async def test_a_job_of_another_manager_with_the_name_stays(manager: str | None, deleted: list[str]) -> None:
    job = train_job("a", "ns", annotations={ANNOTATION_JOB: "0"}, conditions=[ENDED], managedBy=manager)
    gone: list[str] = []

    async def delete(kind: type, name: str, namespace: str, **_: str) -> None:
        gone.append(name)

    process = SimpleNamespace(cache=SimpleNamespace(get=lambda *_: job), client=SimpleNamespace(delete=delete))
    await _reconcile(
        cast("Manager", process), {}, Lifetimes(), lambda: datetime(2026, 11, 25, 11, tzinfo=UTC), Key("ns", "a")
    )
    assert gone == deleted


async def test_a_job_is_looked_at_each_minute_since_the_clock_may_jump() -> None:
    job = train_job("a", "ns", annotations={ANNOTATION_JOB: "86400"}, conditions=[ENDED])
    process = SimpleNamespace(cache=SimpleNamespace(get=lambda *_: job))
    result = await _reconcile(
        cast("Manager", process), {}, Lifetimes(), lambda: datetime(2026, 11, 25, 11, tzinfo=UTC), Key("ns", "a")
    )
    assert isinstance(result, RetryAfter)
    assert result.seconds == 60
