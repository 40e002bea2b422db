# SPDX-License-Identifier: Apache-2.0
"""The attempts of a job as the cache shows them: which have ended, what they cost, and what follows."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tests.builders import condition, train_job
from tests.builders import jobset as made_jobset
from tests.unit.trainer.recovery.test_recovery_causes import PEER, pod
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.jobset.v1alpha2.claims import makes_claims
from trainwright.api.objects import Document
from trainwright.api.times import format_time
from trainwright.api.trainer.v1alpha1 import TrainerStatus, TrainJob
from trainwright.api.trainer.v1alpha1.recovery import Declaration
from trainwright.controller.trainer.failures.first import failures_by_attempt
from trainwright.controller.trainer.failures.record import Entry, document_of, entries_of
from trainwright.controller.trainer.job.stall import Stall, StalledAttempt, StallReason
from trainwright.controller.trainer.recovery.attempts import (
    Glance,
    KnownAttempts,
    Progression,
    advance,
    entries_of_present,
    observe,
    restart_stalled,
    stalled,
    stood,
)
from trainwright.controller.trainer.recovery.causes import Span
from trainwright.controller.trainer.recovery.verdict import (
    KEY,
    Counts,
    Position,
    Summary,
    is_since,
    summary_of,
    text_of,
)
from trainwright.plugins.testing import replicated_job

RETRIES = Declaration(mode="gang", retries=2)
START = datetime(2026, 11, 25, 10, 0, 0, tzinfo=UTC)


class Life:
    """One job, its JobSets and its pods, with a clock of its own."""

    def __init__(self, wanted: Declaration = RETRIES) -> None:
        self.wanted, self.now, self.uid = wanted, START, "s1"
        self.base = self.restarts = self.counted = 0
        self.failed = ""
        self.suspended = False
        """By its owner."""
        self.is_held = False
        """Whether the manager has suspended the JobSet."""
        self.stall: tuple[str, str] | None = None
        self.stalled_attempt: int | None = None
        """None: the present one."""
        self.step: int | None = None
        self.checkpoint: int | None = None
        self.reported_at = ""
        self.newest: int | None = None
        """A step that was reported, and that the job does not show yet."""
        self.pods: list[Document] = []
        self.logs: dict[int, str] = {}
        self.known = KnownAttempts()
        self.entries: dict[int, Entry] = {}
        self.told: list[str] = []
        self.replaceable = True

    @property
    def job(self) -> TrainJob:
        progress = self.report(self.step) if self.step is not None else None
        return train_job(uid="job", suspend=self.suspended, progress=progress)

    def report(self, step: int) -> dict[str, Any]:
        at = {"lastUpdatedTime": f"2026-11-25T{self.reported_at}Z"} if self.reported_at else {}
        told = {"current_step": step, "checkpoint_step": self.checkpoint}
        return {"metrics": [{"name": name, "value": str(one)} for name, one in told.items() if one is not None], **at}

    @property
    def glance(self) -> Glance:
        newest = msgspec.convert(self.report(self.newest), TrainerStatus) if self.newest is not None else None
        return Glance(job=self.job, jobset=self.jobset, pods=self.pods, now=self.now, report=newest)

    @property
    def jobset(self) -> JobSet:
        node = replicated_job(completions=2)
        if self.base:
            marks = {"annotations": {"trainwright.dev/attempt-base": str(self.base)}}
            node["template"]["spec"]["template"]["metadata"] = marks
        policies = [] if self.replaceable else [{"templates": [{"metadata": {"name": "state"}, "spec": {}}]}]
        counted = {"restartsCountTowardsMax": self.counted} if self.counted else {}  # as JobSet leaves out a zero
        return made_jobset(
            node,
            uid=self.uid,
            suspend=self.suspended or self.is_held,
            volumeClaimPolicies=policies,
            conditions=[condition("Failed", reason=self.failed, at=self.failed_at)] if self.failed else [],
            status={"restarts": self.restarts, **counted},
        )

    def look(self) -> Progression:
        """The Part looks at the job, as after each event."""
        glance = self.glance
        observe(self.known, glance)
        self.entries = entries_of_present(self.entries, self.known.summary, self.uid)
        for attempt, found in failures_by_attempt(self.pods).items():
            if attempt >= self.known.summary.judged and self.known.summary.replace != self.uid:
                self.entries.setdefault(attempt, Entry.of(found[0], self.logs.get(attempt, "")))
        step = advance(self.known, glance, self.entries, self.wanted)
        # A manager may end after any look, so the record must hold all that it knows.
        written = document_of(self.job, step.entries, {KEY: text_of(step.summary)})["data"]
        assert summary_of(written) == step.summary
        self.known.summary, self.entries = step.summary, step.entries
        self.told += step.told
        return step

    def notice(self) -> str:
        """The Part looks whether the ranks are to be restarted, and begins with it."""
        glance, still = self.glance, None
        if self.stall:
            reason, message = self.stall
            attempt = glance.current if self.stalled_attempt is None else self.stalled_attempt
            still = StalledAttempt((self.uid, attempt), Stall(reason=StallReason(reason), message=message))
        how = stalled(self.known, glance, self.wanted, still)
        if how:
            step = restart_stalled(self.known, glance, self.entries, self.wanted, how)
            self.known.summary, self.entries = step.summary, step.entries
            self.told += step.told
        return how

    def run(self, *pods: Document) -> None:
        """The pods of the present attempt become these."""
        self.pods = []
        for one in pods:
            labels = {**one["metadata"]["labels"], "jobset.sigs.k8s.io/restart-attempt": str(self.restarts)}
            marks = {"trainwright.dev/attempt-base": str(self.base)}
            metadata = {**one["metadata"], "labels": labels, "annotations": marks}
            metadata["uid"] = f"{self.uid}-{self.restarts}-{one['metadata']['name']}"
            self.pods.append({**one, "metadata": metadata})
        self.look()

    def restart(self, *, counted: bool = True) -> Progression:
        """Kubernetes restarts all ranks."""
        self.pods, self.restarts, self.counted = [], self.restarts + 1, self.counted + int(counted)
        return self.look()

    def give_up(self, reason: str = "ReachedMaxRestarts") -> Progression:
        """Kubernetes fails the JobSet."""
        self.failed, self.failed_at = reason, self.now
        return self.look()

    def follow(self, base: int) -> Progression:
        """Another JobSet takes the place."""
        self.uid, self.base, self.failed = f"{self.uid}+", base, ""
        self.restarts = self.counted = 0
        self.pods = []
        return self.look()

    @property
    def causes(self) -> dict[str, int]:
        return self.known.summary.counts.causes


@pytest.mark.parametrize("how", ["volumes", "spent"])
def test_an_end_that_is_certain_is_not_waited_for(how: str) -> None:
    life = Life(Declaration(mode="gang", retries=0, infrastructure=0))
    life.replaceable = how != "volumes"
    life.logs[0] = PEER
    life.run(pod(0, code=1))
    assert life.give_up().summary.end_reason == "ReachedMaxRestarts"


def test_kubernetes_keeps_the_last_word_where_a_rule_ended_the_job() -> None:
    """Scenarios 10 and 27: a code that ends the job, and an initializer that failed for good."""
    life = Life(Declaration(mode="gang", no_retry=(3,)))
    life.run(pod(1, code=3))
    assert life.give_up("FailJobSetFailurePolicyAction").summary.replace == ""
    assert life.causes == {"Configuration": 1}
    other = Life()
    first = pod(0, code=1)
    first["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"] = "dataset-initializer"
    other.run(first)
    step = other.give_up("FailJobSetFailurePolicyAction")
    assert (step.summary.replace, step.summary.counts.row.get("retries", 0)) == ("", 0)


@pytest.mark.parametrize("policy", [{}, *({"retentionPolicy": {"whenDeleted": kept}} for kept in ("Delete", "Retain"))])
def test_a_jobset_that_makes_volumes_stays(policy: dict[str, Any]) -> None:
    """Scenario 45: also where they are retained, since JobSet refuses another one with them."""
    life = Life()
    jobset = life.jobset
    assert not makes_claims(jobset)
    spec = {"accessModes": ["ReadWriteMany"]}
    made = msgspec.to_builtins(jobset)
    made["spec"]["volumeClaimPolicies"] = [{"templates": [{"metadata": {"name": "state"}, "spec": spec}], **policy}]
    assert makes_claims(msgspec.convert(made, JobSet))


def test_a_rank_that_fails_in_the_moment_of_a_suspension_costs_nothing() -> None:
    """JobSet counts one more restart than there were attempts: the next one begins with the resume."""
    life = Life()
    life.run(pod(0), pod(1))
    life.suspended = True
    life.look()
    life.base, life.restarts, life.counted = 1, 1, 1
    life.run()
    assert life.causes == {"Suspended": 2}
    assert (life.entries[1].message, life.known.summary.counts.row) == ("the job was suspended", {})


def test_the_record_of_many_attempts_stays_small() -> None:
    """Scenario 54: the sums are those of all 500."""
    entries = {}
    for number in range(500):
        entry: Any = Entry(attempt=number, pod=f"j-node-0-{number}", message="m" * 300, log="line\n" * 400)
        entries[number] = msgspec.structs.replace(
            entry, cause="Code", charged="retries", last_line="l" * 300, nodes=("node" * 10,) * 8
        )
    data = document_of(Life().job, entries, {KEY: text_of(Summary(judged=500))})["data"]
    assert sum(len(key) + len(text) for key, text in data.items()) < 80 * 1024
    kept = list(entries_of(data))
    assert (kept[0], kept[-1], len(kept)) == (0, 499, 50)
    assert [number + 1 for number in kept if f"attempt-{number + 1}.log" in data] == [1, 497, 498, 499, 500]
    found = summary_of(data)
    assert found is not None
    assert found.judged == 500


STANDS = ("NoAdvance", "reports come, and have shown step 50 for 15 min; look at its logs, it may hang")


def test_a_hang_is_charged_and_its_pods_are_gone_before_the_next_attempt() -> None:
    """Scenarios 30 and 36, text T5."""
    life = Life(Declaration(mode="gang", restarts_stalled=True))
    life.step = 50
    life.run(pod(0), pod(1))
    assert not life.notice()
    life.stall = STANDS
    assert life.notice()
    (told,) = life.told
    assert told == (
        "reports come, and have shown step 50 for 15 min; the ranks are restarted (1 of 2); "
        "ConfigMap j-failures has their last lines"
    )
    assert not life.notice()
    assert life.known.summary.hang
    assert (life.entries[0].cause, life.entries[0].charged, life.entries[0].step) == ("Hang", "hang", 50.0)
    # The JobSet is suspended, and its pods end; one of them fails meanwhile, which costs nothing.
    life.stall, jobset = None, life.jobset
    assert jobset.spec is not None
    jobset.spec.suspend = True
    for pods, hangs in (([pod(1, code=1, deleted="10:00:00")], True), ([], False)):
        life.pods = pods
        glance = Glance(job=life.job, jobset=jobset, pods=pods, now=life.now)
        observe(life.known, glance)
        life.known.summary = advance(life.known, glance, life.entries, life.wanted).summary
        assert life.known.summary.hang is hangs
    assert (life.known.summary.judged, life.causes) == (1, {"Hang": 1})
    life.base = 1
    life.run(pod(0), pod(1))
    assert life.known.summary.judged == 1


@pytest.mark.parametrize(
    "end", [("", ""), ("Hang", "the job failed after 1 attempt; the last: it stands; see the logs")]
)
def test_the_rank_that_is_elsewhere_gets_into_the_record_and_the_last_sentence(end: tuple[str, str]) -> None:
    life = Life(Declaration(mode="gang", restarts_stalled=True))
    life.run(pod(0), pod(1))
    how = "it stands; it may hang"
    step = restart_stalled(life.known, life.glance, {}, life.wanted, how)
    life.known.summary = step.summary
    where = 'rank 1 was elsewhere: File "/code/train.py", line 42, in load_batch'
    found = stood(life.known, step, life.glance, where, end)
    assert (found.summary.why, found.entries[0].message) == (f"it stands; {where}", f"it stands; {where}")
    assert found.told == [f"attempt 1 stood still: {where}"]
    # Its ranks stay stopped.
    assert (found.summary.hang, found.summary.end_reason) == (True, end[0])
    assert found.summary.end_message == end[1].replace("it stands", f"it stood still: {where}")
    # Without stacks, nothing is claimed.
    assert stood(life.known, step, life.glance, "", ("", "")).summary == step.summary


def test_ranks_that_have_ended_do_not_keep_the_next_attempt_from_beginning() -> None:
    """A suspended Job keeps the pods that have succeeded, and never runs their ranks again: it takes a new JobSet."""
    ended = pod(1, status={"phase": "Succeeded"})
    life = stopped(pod(0), ended)
    life.run(pod(0, deleted="10:00:00"), ended)
    assert life.known.summary.hang
    life.run(ended)
    assert (life.known.summary.hang, life.known.summary.replace) == (False, "s1")
    kept = stopped(pod(0), ended)
    kept.replaceable = False
    kept.run(ended)
    assert (kept.known.summary.hang, kept.known.summary.replace) == (False, "")


def test_initializers_that_have_succeeded_stay_after_a_hang() -> None:
    life = stopped(INITIALIZER, pod(0), pod(1))
    life.run(INITIALIZER)
    assert (life.known.summary.hang, life.known.summary.replace) == (False, "")


INITIALIZER = pod(0, status={"phase": "Succeeded"})
INITIALIZER["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"] = "dataset-initializer"
DONE = [pod(rank, status={"phase": "Succeeded"}) for rank in range(2)]


@pytest.mark.parametrize(
    ("left", "replaceable", "replaced"),
    [
        pytest.param([DONE[1]], True, "s1", id="one of two ranks has succeeded"),
        pytest.param([DONE[1], pod(0, deleted="10:00:00")], True, "", id="the other one still ends"),
        pytest.param(DONE, True, "", id="all have, so the JobSet is about to complete"),
        pytest.param([INITIALIZER], True, "", id="an initializer has"),
        pytest.param([DONE[1]], False, "", id="its JobSet makes volumes"),
    ],
)
def test_a_suspended_gang_is_resumed_whole_and_at_once(left: list[Document], replaceable: bool, replaced: str) -> None:
    """A Job never runs a rank again that has succeeded, and the time in a queue counts as the pause."""
    life = Life()
    life.replaceable = replaceable
    life.run(pod(0), pod(1))
    life.known.summary.hold_until = format_time(life.now + timedelta(seconds=60))
    life.suspended = True
    life.run(*left)
    assert (life.known.summary.replace, life.known.summary.hold_until) == (replaced, "")
    assert (life.causes, life.known.summary.counts.row) == ({"Suspended": 1}, {})


@pytest.mark.parametrize(
    ("finished", "replaced"),
    [
        pytest.param([1], "s1", id="one rank ended with 0 when it was stopped"),
        pytest.param([0, 1], "", id="both did, so the JobSet is about to complete"),
    ],
)
def test_a_rank_that_ends_with_0_when_it_is_stopped_is_done_and_leaves_no_pod(
    finished: list[int], replaced: str
) -> None:
    life = Life()
    life.run(pod(0), pod(1))
    life.suspended = True
    ending = [pod(rank, deleted="10:00:00") for rank in range(2)]
    for rank in finished:
        ending[rank]["status"]["phase"] = "Succeeded"
    life.run(*ending)
    assert life.known.summary.replace == ""
    life.run()
    assert (life.known.summary.replace, life.causes) == (replaced, {"Suspended": 1})
    # The next attempt knows nothing of it.
    life.suspended, life.base, life.uid = False, 1, "s2"
    life.run(pod(0), pod(1))
    life.suspended = True
    life.run()
    assert life.known.summary.replace == ""


def stopped(*pods: Document) -> Life:
    """A job whose attempt stood still, and whose JobSet is suspended for that."""
    life = Life(Declaration(mode="gang", restarts_stalled=True))
    life.step = 50
    life.run(*pods)
    life.stall = STANDS
    assert life.notice()
    life.stall, life.is_held = None, True
    return life


def test_an_attempt_does_not_pay_for_the_hang_of_the_one_before() -> None:
    """The job still has the condition of the attempt before, since its ranks were restarted at once."""
    life = Life(Declaration(mode="gang", restarts_stalled=True))
    life.step, life.stall, life.stalled_attempt = 50, STANDS, 0
    life.run(pod(0), pod(1))
    assert life.notice()
    life.now += timedelta(seconds=2)
    life.known.summary.hang, life.base = False, 1
    assert not life.notice()
    life.run(pod(0), pod(1))
    assert not life.notice()
    # It hangs, too.
    life.now += timedelta(minutes=15)
    life.stalled_attempt = 1
    assert life.notice()
    assert life.causes == {"Hang": 2}


def test_three_hangs_at_one_step_end_the_job() -> None:
    """Scenario 31."""
    life = Life(Declaration(mode="gang", restarts_stalled=True))
    life.step, life.stall = 50, STANDS
    for number in range(3):
        life.run(pod(0), pod(1))
        assert life.notice()
        life.known.summary.hang = False
        life.base = number + 1
    assert life.known.summary.end_reason == "Hang"
    assert life.known.summary.end_message.startswith(
        "the job failed after 3 attempts without progress; the last: reports come, and have shown step 50 for 15 min; "
        "its 2 retries for hangs are used up: raise annotation trainwright.dev/retries "
    )
    assert not life.notice()


@pytest.mark.parametrize(
    ("stall", "asked", "restarts"),
    [
        pytest.param(("NoReport", "no report"), True, True, id="no report"),
        pytest.param(("NoReport", "no report"), False, False, id="not asked for"),
        pytest.param(("NeverReported", "none"), True, False, id="never reported"),  # scenario 32
        pytest.param(("RankEnded", "rank 1 ended"), True, False, id="a rank has ended"),
        pytest.param(None, True, False, id="it goes on"),  # scenario 33
    ],
)
def test_which_standstill_restarts_the_ranks(stall: tuple[str, str] | None, asked: bool, restarts: bool) -> None:
    life = Life(Declaration(mode="gang", restarts_stalled=asked))
    life.run(pod(0), pod(1))
    life.stall = stall
    assert bool(life.notice()) is restarts


def test_a_job_that_reported_in_an_earlier_attempt_promised_to_report() -> None:
    life = Life(Declaration(mode="gang", restarts_stalled=True))
    life.step = 5
    life.run(pod(0), pod(1, code=1))
    life.restart()
    life.run(pod(0), pod(1))
    life.stall = ("NeverReported", "the pods run, and no report came")
    assert life.notice()


def test_a_rank_that_fails_while_it_is_stopped_does_not_end_the_job() -> None:
    """Kubernetes saw the failure before the suspension."""
    life = Life(Declaration(mode="gang", restarts_stalled=True))
    life.run(pod(0), pod(1))
    life.stall = STANDS
    assert life.notice()
    step = life.give_up()
    assert (step.summary.replace, step.summary.hang, life.causes) == ("s1", False, {"Hang": 1})


def started(one: Document, at: str) -> Document:
    return {**one, "status": {**one["status"], "startTime": f"2026-11-25T{at}Z"}}


def fail_at(life: Life, start: str, end: str, words: str) -> None:
    """An attempt of two ranks begins, and rank 1 fails."""
    life.run(started(pod(0), start), started(pod(1), start))
    life.logs[life.base + life.restarts] = words
    life.run(started(pod(0), start), started(pod(1, code=1, at=end), start))


@pytest.mark.parametrize("shown", ["09:59:10", "10:00:19", "10:00:20"])
def test_a_late_report_is_progress_of_the_attempt_that_made_it(shown: str) -> None:
    """The last report of an attempt is written seconds after that has ended: the next one gets no credit for it."""
    life = Life(Declaration(mode="gang", retries=2))
    life.step, life.reported_at = 10, "09:59:00"
    fail_at(life, "09:58:00", "09:59:10", "ValueError: a")
    life.restart()
    assert life.known.summary.counts.row == {"retries": 1}
    # Step 20 was reported before the second attempt began, or in its first second, in which no other one ran.
    life.step, life.reported_at = 20, shown
    fail_at(life, "10:00:20", "10:00:30", "ValueError: b")
    life.restart()
    is_own = shown == "10:00:20"
    assert life.known.summary.counts.row == {"retries": 1 if is_own else 2}
    assert [life.entries[n].step for n in (0, 1)] == ([10.0, 20.0] if is_own else [20.0, None])
    assert [life.entries[n].started[11:19] for n in (0, 1)] == ["09:58:00", "10:00:20"]
    assert life.known.summary.counts.step == 20.0


def test_a_report_in_the_first_second_of_an_attempt_takes_no_progress_from_the_one_before() -> None:
    """Another manager has taken over, which does not know whether the attempt before had ended by then."""
    life = Life()
    life.step, life.reported_at = 3, "09:59:00"
    fail_at(life, "09:58:00", "09:59:10", "ValueError: a")
    life.restart()
    life.known = KnownAttempts(life.known.summary)
    life.step, life.reported_at = 1, "10:00:20"
    fail_at(life, "10:00:20", "10:00:30", "ValueError: b")
    life.restart()
    assert (life.known.summary.counts.step, life.entries[0].step) == (3.0, 3.0)
    assert life.known.summary.counts.row == {"retries": 2}


def test_an_attempt_that_was_charged_too_early_gets_its_progress_back() -> None:
    """Two failures without progress, and the third attempt reports more than any before, just before it fails."""
    life = Life(Declaration(mode="gang", retries=5))
    life.step, life.reported_at = 10, "10:00:05"
    for number, (start, end) in enumerate((("10:00:00", "10:00:10"), ("10:01:00", "10:01:10"))):
        fail_at(life, start, end, f"ValueError: {'ab'[number]}")
        life.restart()
    fail_at(life, "10:02:00", "10:02:30", "ValueError: c")
    life.restart()
    assert life.known.summary.counts.row == {"retries": 3}
    life.step, life.reported_at = 30, "10:02:29"
    fail_at(life, "10:03:00", "10:03:10", "ValueError: d")
    life.restart()
    # The third one has cleared the counts before it was charged itself.
    assert life.known.summary.counts.row == {"retries": 2}
    assert life.causes == {"Code": 4}
    assert life.entries[2].step == 30.0


@pytest.mark.parametrize(
    ("at", "row", "entry"),
    [
        # The same second as the last report that was read, and a later one; a text without a time is the user's own.
        ("10:01:05", {"retries": 1}, (24.0, 20.0)),
        ("10:01:06", {"retries": 1}, (24.0, 20.0)),
        ("", {"retries": 2}, (11.0, 10.0)),
    ],
)
def test_the_last_report_in_the_termination_message_counts(
    at: str, row: dict[str, int], entry: tuple[float, float]
) -> None:
    """The rank was killed before its file was read once more."""
    life = Life(Declaration(mode="gang", retries=5))
    life.step, life.checkpoint, life.reported_at = 10, 10, "10:00:05"
    fail_at(life, "10:00:00", "10:00:10", "ValueError: a")
    life.restart()
    life.step, life.reported_at = 11, "10:01:05"
    life.run(started(pod(0), "10:01:00"), started(pod(1), "10:01:00"))
    report = {
        "step": 24,
        "metrics": {"checkpoint_step": 20},
        **({"lastUpdatedTime": f"2026-11-25T{at}Z"} if at else {}),
    }
    killed = pod(0, code=137, at="10:01:10", message=f"step 24\n{json.dumps(report)}")
    life.run(started(killed, "10:01:00"), started(pod(1, code=1, at="10:01:11"), "10:01:00"))
    life.restart()
    assert life.known.summary.counts.row == row
    assert (life.entries[1].step, life.entries[1].checkpoint) == entry


@pytest.mark.parametrize(
    ("shown", "left", "row", "entry"),
    [
        pytest.param(True, False, {"retries": 1}, (151.0, 150.0), id="the job showed it when a rank failed"),
        pytest.param(False, True, {"retries": 1}, (151.0, 150.0), id="the container left it"),
        pytest.param(False, False, {"retries": 2}, (None, None), id="it was not seen"),
    ],
)
def test_a_checkpoint_counts_though_the_next_attempt_reports_before_the_verdict(
    shown: bool, left: bool, row: dict[str, int], entry: tuple[float | None, float | None]
) -> None:
    """The job shows one report: the next attempt's has replaced the one with the checkpoint."""
    life = Life(Declaration(mode="gang", retries=5))
    life.step, life.checkpoint, life.reported_at = 101, 100, "10:00:05"
    fail_at(life, "10:00:00", "10:00:10", "ValueError: a")
    life.restart()
    if shown:
        life.step, life.checkpoint, life.reported_at = 151, 150, "10:01:09"
    report = {"step": 151, "metrics": {"checkpoint_step": 150}, "lastUpdatedTime": "2026-11-25T10:01:09Z"}
    killed = pod(0, code=1, at="10:01:10", message=json.dumps(report) if left else "")
    life.run(started(killed, "10:01:00"), started(pod(1), "10:01:00"))
    life.restarts, life.counted = 2, 2
    life.step, life.checkpoint, life.reported_at = 151, None, "10:01:15"
    life.run(started(pod(0), "10:01:12"), started(pod(1), "10:01:12"))
    assert life.known.summary.counts.row == row
    assert (life.entries[1].step, life.entries[1].checkpoint) == entry


def test_a_report_that_is_taken_and_not_written_yet_counts() -> None:
    """Kubernetes has no retry left: the last report of the attempt decides, and the job does not show it yet."""
    life = Life(Declaration(mode="gang", retries=0))
    life.step, life.reported_at = 10, "10:00:05"
    fail_at(life, "10:00:00", "10:00:10", "ValueError: a")
    life.newest = 20
    assert life.give_up().summary.counts.step == 20.0


def test_a_report_of_the_next_attempt_is_no_progress_of_the_one_that_ended() -> None:
    """The manager looks late, when the next attempt has come further already."""
    life = Life(Declaration(mode="gang", retries=5))
    fail_at(life, "10:00:00", "10:00:10", "ValueError: a")
    life.restarts, life.counted = 1, 1
    life.step, life.reported_at = 10, "10:00:20"
    life.run(started(pod(0), "10:00:12"), started(pod(1), "10:00:12"))
    assert life.causes == {"Code": 1}
    assert (life.known.summary.counts.step, life.entries[0].step) == (None, None)
    fail_at(life, "10:00:12", "10:00:30", "ValueError: b")
    life.restart()
    assert (life.known.summary.counts.row, life.entries[1].step) == ({"retries": 1}, 10.0)


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


def test_what_happens_to_a_jobset_that_gives_way_is_no_attempt() -> None:
    """Kubernetes may have begun an attempt in it, and may end it before the JobSet is deleted."""
    life = Life()
    life.run(pod(0), pod(1, code=1))
    life.restart()
    life.known.summary.replace = life.uid
    life.run(pod(0), pod(1, code=1))
    life.restart()
    life.give_up()
    assert (life.causes, life.known.summary.judged) == ({"Code": 1}, 1)
    assert life.known.summary.replace == life.uid
    life.follow(1)
    life.run(pod(0), pod(1))
    life.logs[1] = "ValueError: another"
    life.run(pod(0), pod(1, code=3, at="10:05:00"))
    life.restart()
    assert (life.causes, life.entries[1].exit_code, life.entries[1].log) == ({"Code": 2}, 3, "ValueError: another")


def test_the_culprit_of_an_attempt_is_of_the_jobset_that_makes_it() -> None:
    """Another JobSet had begun an attempt of this number, and gave way before that was judged."""
    old = Entry(attempt=1, pod="a", jobset_uid="s1", exit_code=1)
    entries = {0: Entry(attempt=0, pod="a", jobset_uid="s0", cause="Code"), 1: old}
    assert entries_of_present(entries, Summary(judged=1), "s1") == entries
    assert entries_of_present(entries, Summary(judged=1), "s2") == {0: entries[0]}
    assert entries_of_present(entries, Summary(judged=2), "s2") == entries


def test_an_attempt_of_an_hour_is_progress_though_the_manager_was_restarted_in_it() -> None:
    """What the process before has seen is lost, and pods say when their containers began."""
    life = Life()
    life.run(pod(0), pod(1))
    life.known = KnownAttempts()
    failed = pod(1, code=1, at="11:00:00")
    (status,) = failed["status"]["containerStatuses"]
    status["state"]["terminated"]["startedAt"] = "2026-11-25T10:00:00Z"
    life.known.summary = Summary(counts=Counts(row={"retries": 2}))
    life.run(pod(0), failed)
    life.restart()
    assert life.known.summary.counts.row == {"retries": 1}


def test_a_node_that_is_used_again_after_a_day_may_be_suspect_again() -> None:
    life = Life(Declaration(mode="gang", retries=2, avoids_nodes=True))
    life.known.summary = Summary(avoided={"gpu-1": format_time(life.now - timedelta(hours=25))})
    life.run(pod(0, node="gpu-2"), pod(1))
    life.logs[0] = "NVRM: Xid (PCI:0000:3b:00): 79"
    life.run(pod(0, node="gpu-2"), pod(1, code=1))
    assert life.restart().suspect[0] == "gpu-1"
