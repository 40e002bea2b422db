# SPDX-License-Identifier: Apache-2.0
"""What recovery knows of attempts, without a manager; tests/timelines has what it does."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tests.builders import ended, pod, train_job
from tests.builders import jobset as made_jobset
from tests.cases import cases
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.jobset.v1alpha2.claims import makes_claims
from trainwright.api.times import format_time
from trainwright.api.trainer.v1alpha1 import TrainerStatus
from trainwright.controller.trainer.failures.record import Entry, document_of, entries_of
from trainwright.controller.trainer.recovery.attempts import (
    Glance,
    KnownAttempts,
    entries_of_present,
    held_for,
    lacks_ranks,
)
from trainwright.controller.trainer.recovery.causes import Span
from trainwright.controller.trainer.recovery.verdict import (
    KEY,
    Position,
    Summary,
    is_since,
    summary_of,
    text_of,
)
from trainwright.plugins.testing import replicated_job

CASES = cases(__file__)

START = datetime(2026, 11, 25, 10, 0, 0, tzinfo=UTC)


def jobset(**spec: Any) -> JobSet:
    return made_jobset(replicated_job(completions=2), uid="s1", **spec)


@pytest.mark.parametrize("policy", [{}, *({"retentionPolicy": {"whenDeleted": kept}} for kept in ("Delete", "Retain"))])
def test_a_jobset_that_makes_volumes_stays(policy: dict[str, Any]) -> None:
    """Also where they are retained, since JobSet refuses another one with them."""
    assert not makes_claims(jobset())
    template = {"metadata": {"name": "state"}, "spec": {"accessModes": ["ReadWriteMany"]}}
    assert makes_claims(jobset(volumeClaimPolicies=[{"templates": [template], **policy}]))


def test_a_report_that_is_taken_and_not_written_yet_counts() -> None:
    reports = [{"metrics": [{"name": "current_step", "value": str(step)}]} for step in (10, 20)]
    job = train_job(uid="job", progress=reports[0])
    newest = msgspec.convert(reports[1], TrainerStatus)
    shown, known = (Glance(job=job, jobset=jobset(), pods=[], now=START, report=one) for one in (None, newest))
    assert (shown.position.step, known.position.step) == (10.0, 20.0)


def test_the_record_of_many_attempts_stays_small() -> None:
    """Scenario 54: the sums are those of all 500."""
    entries = {}
    for number in range(500):
        entry: Any = Entry(attempt=number, pod=f"j-node-0-{number}", message="m" * 300, log="line\n" * 400)
        entries[number] = msgspec.structs.replace(
            entry, cause="Code", charged="retries", last_line="l" * 300, nodes=("node" * 10,) * 8
        )
    data = document_of(train_job(uid="job"), entries, {KEY: text_of(Summary(judged=500))})["data"]
    assert sum(len(key) + len(text) for key, text in data.items()) < 80 * 1024
    kept = list(entries_of(data))
    assert (kept[0], kept[-1], len(kept)) == (0, 499, 50)
    assert [number + 1 for number in kept if f"attempt-{number + 1}.log" in data] == [1, 497, 498, 499, 500]
    found = summary_of(data)
    assert found is not None
    assert found.judged == 500


def test_one_second_does_not_tell_two_attempts_apart() -> None:
    position = Position(step=3.0, at="2026-11-25T10:00:05Z")

    def at(second: int) -> datetime:
        return START + timedelta(seconds=second)

    assert is_since(position, Span(began=at(4)), Span(ended=at(3)))
    assert not is_since(position, Span(began=at(6)), Span(ended=at(3)))
    assert is_since(position, Span(began=at(5)), Span(ended=at(4)))
    assert not is_since(position, Span(began=at(5)), Span(ended=at(5)))
    assert not is_since(position, Span(began=at(5)), Span())
    assert is_since(position, Span(began=at(5)), None)
    assert is_since(position, Span(), Span(ended=at(9)))
    assert is_since(Position(step=3.0), Span(began=at(9)), None)


def test_the_culprit_of_an_attempt_is_of_the_jobset_that_makes_it() -> None:
    """Another JobSet had begun an attempt of this number, and gave way before that was judged."""
    old = Entry(attempt=1, pod="a", jobset_uid="s1", exit_code=1)
    entries = {0: Entry(attempt=0, pod="a", jobset_uid="s0", cause="Code"), 1: old}
    assert entries_of_present(entries, Summary(judged=1), "s1") == entries
    assert entries_of_present(entries, Summary(judged=1), "s2") == {0: entries[0]}
    assert entries_of_present(entries, Summary(judged=2), "s2") == entries


@pytest.mark.parametrize(("policy", "done", "lacks"), CASES["ranks_that_are_lacking"])
def test_ranks_that_have_succeeded_are_lacking_unless_the_jobset_is_about_to_complete(
    policy: dict[str, Any], done: dict[str, int], lacks: bool
) -> None:
    more: dict[str, Any] = {"successPolicy": policy} if policy else {}
    made = made_jobset(replicated_job(completions=2), replicated_job("side", completions=1), **more)
    pods = [
        pod(rank, ended(0), role=role, uid=f"{role}-{rank}") for role, count in done.items() for rank in range(count)
    ]
    glance = Glance(job=train_job(uid="job"), jobset=made, pods=pods, now=START)
    assert lacks_ranks(KnownAttempts(), glance) is lacks


@pytest.mark.parametrize(("ahead", "held"), [(-1, 0), (600, 600), (630, 630), (3600, 0)])
def test_a_hold_of_a_clock_that_was_set_back_holds_nothing(ahead: int, held: int) -> None:
    """The longest pause is 10 minutes, and clocks of two replicas may differ by a little."""
    assert held_for(Summary(hold_until=format_time(START + timedelta(seconds=ahead))), START) == held
