# SPDX-License-Identifier: Apache-2.0
"""What becomes of OptimizationJobs, in virtual time."""

from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.builders import condition, counts
from tests.repository import documents
from tests.unit.optimization.conftest import SETTLE_SECONDS, Search, optimization_job
from tests.virtual_trainer import SPACE
from trainwright.api.trainer.v1alpha1 import OptimizationJob
from trainwright.controller.optimization.plan import End, status_of
from trainwright.controller.optimization.trials import REPORT_SECONDS, State, Trial
from trainwright.controller.runtime.errors import Forbidden
from trainwright.plugins.testing import runtime_document


def test_a_random_search_keeps_to_its_numbers(search: Search) -> None:
    search.start()
    search.job(numTrials=20, parallelTrials=4)
    search.trains(lambda parameters: parameters["x"])
    trials = search.trials()
    assert [one["metadata"]["name"] for one in trials] == [f"s-{number}" for number in range(1, 21)]
    assert search.most == 4
    best = min(trials, key=lambda one: float(search.parameters(one)["x"]))
    values = [{"name": "x", "value": search.parameters(best)["x"]}]
    assert search.found["status"]["result"] == {"trainJobName": best["metadata"]["name"], "parameters": values}
    status, reason, message = search.conditions["Complete"]
    assert (status, reason) == ("True", "MaxTrialsReached")
    assert message.endswith(f"of TrainJob {best['metadata']['name']}")
    assert search.columns == ["20/20", "0", "0", f"{float(values[0]['value']):.6g}"]
    assert {"TrialComplete", "NewBestTrial", "MaxTrialsReached"} <= {reason for reason, _ in search.events}
    assert search.trainer.sample("trainer_search_trials_total", state="complete") == 20
    assert search.trainer.sample("trainer_search_trials_total", state="failed") == 0
    assert search.trainer.sample("trainer_search_suggestion_duration_seconds_count")


def test_the_training_gets_its_parameters_and_what_the_template_says(search: Search) -> None:
    template = {
        "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
        "spec": {
            "runtimeRef": {"name": "r", "kind": "TrainingRuntime"},
            "trainer": {"env": [{"name": "SEED", "value": "7"}]},
        },
    }
    search.start()
    parameters = [{"name": "learning-rate", "searchSpace": {"categorical": {"choices": ["0.1$(A)$$"]}}}]
    search.job(parameters=parameters, trainJobTemplate=template)
    (made,) = search.trials()
    assert made["spec"]["trainer"]["env"] == [
        {"name": "SEED", "value": "7"},
        {"name": "KUBEFLOW_TRAINER_OPT_LEARNING_RATE", "value": "0.1$$(A)$$$$"},
    ]
    assert search.parameters(made) == {"learning-rate": "0.1$(A)$$"}
    assert made["metadata"]["labels"] == {"team": "a", "trainwright.io/optimization-job": "s"}
    assert made["metadata"]["annotations"]["note"] == "b"
    assert made["metadata"]["annotations"]["trainwright.io/trial"] == "1"
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("OptimizationJob", "s", True)


@pytest.mark.parametrize(("trials", "reason"), [(6, "MaxTrialsReached"), (10, "SearchSpaceExhausted")])
def test_a_grid_is_tried_in_order_and_once(search: Search, trials: int, reason: str) -> None:
    choices = {"a": ["1", "2", "3"], "b": ["x", "y"]}
    search.start()
    search.job(
        numTrials=trials,
        parallelTrials=2,
        searchAlgorithm={"grid": {}},
        parameters=[{"name": name, "searchSpace": {"categorical": {"choices": c}}} for name, c in choices.items()],
    )
    search.trains(lambda parameters: parameters["a"])
    tried = [tuple(search.parameters(one).values()) for one in search.trials()]
    assert tried == list(product(*choices.values()))
    assert search.conditions["Complete"][1] == reason
    assert search.found["status"]["result"]["trainJobName"] == "s-1"


@pytest.mark.parametrize(("direction", "best"), [("Minimize", "s-1"), ("Maximize", "s-3"), (None, "s-1")], ids=str)
def test_the_direction_decides_what_is_best(search: Search, direction: str | None, best: str) -> None:
    objective = {"metric": "loss", **({"direction": direction} if direction else {})}
    search.start()
    search.job(numTrials=3, objectives=[objective])
    values = iter("123")
    search.trains(lambda _: next(values))
    assert search.found["status"]["result"]["trainJobName"] == best


REPORTS: dict[str, tuple[list[tuple[int, dict[str, str]]], str, str]] = {
    # reports, state, what is said
    "no report": ([], "failed", "it reported no metrics"),
    "another name": (
        [(100, {"Loss": "1", "acc": "2"})],
        "failed",
        "did not report the metric loss; it reported Loss, acc",
    ),
    "not a number": ([(100, {"loss": "nan"})], "failed", "is nan, which is not a finite number"),
    "infinite": ([(100, {"loss": "-inf"})], "failed", "is -inf, which is not a finite number"),
    "a word": ([(100, {"loss": "low"})], "failed", "is low, which is not a finite number"),
    "early, and no more": ([(10, {"loss": "3"}), (100, {"acc": "2"})], "failed", "it reported acc"),
    "the last counts": ([(10, {"loss": "3"}), (100, {"loss": "2"})], "complete", ""),
    "never 100 %": ([(40, {"loss": "5"})], "complete", ""),
}


@pytest.mark.parametrize("name", REPORTS)
def test_the_value_is_that_of_the_last_report(search: Search, name: str) -> None:
    reports, state, said = REPORTS[name]
    search.start()
    search.job(numTrials=2)
    for percentage, metrics in reports:
        search.trainer.report(percentage, "s-1", **metrics)
    search.trainer.ended("Completed", "s-1")
    search.advance(10)
    (first, _) = search.record
    assert first["state"] == state
    assert said in first.get("message", "")
    assert first.get("value") == (float(reports[-1][1]["loss"]) if state == "complete" else None)


def end_now(search: Search) -> None:
    """The JobSet of the first trial is over, and its last report is waited for."""
    ended = condition("Completed", at=search.cluster.now)
    search.trainer.jobset_status({"replicatedJobsStatus": [counts()], "conditions": [ended]}, "s-1")
    search.advance(REPORT_SECONDS - 3)
    assert search.record[0]["state"] == "running"


def test_a_report_may_come_after_the_end(search: Search) -> None:
    search.start()
    search.job()
    search.trainer.report(50, "s-1", loss="5")
    end_now(search)
    search.trainer.report(100, "s-1", loss="4")
    search.advance(SETTLE_SECONDS)
    assert search.record[0]["value"] == 4


FAILURES: dict[str, tuple[str, list[str], tuple[str, str]]] = {
    # one letter for each trial: f fails, anything else succeeds; the end
    "one of three": ("f12", ["3/3", "0", "1", "1"], ("Complete", "MaxTrialsReached")),
    "five in a row": ("fffff1", ["5/6", "0", "5"], ("Failed", "TrialsFailed")),
    "all but one": ("3fffffff", ["8/8", "0", "7", "3"], ("Complete", "MaxTrialsReached")),
    "all of few": ("ff", ["2/2", "0", "2"], ("Failed", "TrialsFailed")),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failures(search: Search, name: str) -> None:
    ends, columns, (condition, reason) = FAILURES[name]
    search.start()
    search.job(numTrials=len(ends))
    values = iter(ends)
    search.trains(lambda _: None if (value := next(values)) == "f" else value)
    assert search.columns == columns
    assert search.conditions[condition][:2] == ("True", reason)
    if condition == "Failed":
        failed = next(one for one in search.trials()[0]["status"]["conditions"] if one["type"] == "Failed")
        assert f"the first, TrainJob s-1: {failed['message']}" in search.conditions["Failed"][2]
    # Nothing happens afterwards.
    made = len(search.trials())
    search.advance(600)
    assert len(search.trials()) == made


def test_the_name_of_the_trial_that_failed_first_is_never_cut() -> None:
    name = "a" * 40
    last = " ".join(["rank 0 failed;"] * 40)
    failed = Trial(number=1, state=State.FAILED, message=last)
    job = msgspec.convert(optimization_job(name), OptimizationJob)
    found = status_of(job, {1: failed}, End(type="Failed", reason="TrialsFailed"), None, datetime.now(UTC))
    message = next(one.message for one in found.conditions or () if one.type == "Failed")
    assert message.startswith(f"1 trial failed and none gave a value; the first, TrainJob {name}-1: rank 0 failed")
    assert len(message) == 300


def test_a_success_of_a_trial_that_runs_lets_the_search_go_on_after_five_failures(search: Search) -> None:
    search.start()
    search.job(numTrials=8, parallelTrials=2)
    for number in range(2, 7):
        search.ends(f"s-{number}", None)
    assert list(search.running()) == ["s-1"]
    search.ends("s-1", "3")
    assert list(search.running()) == ["s-7", "s-8"]


def test_a_trial_that_waits_holds_its_place_and_is_no_failure(search: Search) -> None:
    template = {"spec": {"runtimeRef": {"name": "r", "kind": "TrainingRuntime"}, "suspend": True}}
    search.start()
    search.job(numTrials=3, parallelTrials=2, trainJobTemplate=template)
    search.advance(3600)
    assert [one["metadata"]["name"] for one in search.trials()] == ["s-1", "s-2"]
    assert search.columns == ["0/3", "2", "0"]
    # A queue admits the first one, and then the others.
    for name in ("s-1", "s-2", "s-3"):
        search.stored.patch("trainjob", name, {"spec": {"suspend": False}}, SPACE)
        search.advance(1)
        search.ends(name, "1")
    assert search.columns == ["3/3", "0", "0", "1"]


def test_a_search_can_be_paused(search: Search) -> None:
    pause = {"trainwright.io/suspend": "true"}
    search.start()
    search.job(numTrials=3, annotations=pause)
    status, reason, message = search.conditions["Created"]
    assert (search.trials(), status, reason) == ([], "False", "Paused")
    assert "paused: no more are created until the annotation trainwright.io/suspend is removed" in message
    search.annotate(suspend=None)
    assert list(search.running()) == ["s-1"]
    search.annotate(suspend="true")
    search.ends("s-1", "2")
    search.advance(600)
    assert search.columns == ["1/3", "0", "0", "2"]
    assert search.conditions["Created"][:2] == ("True", "TrainJobsCreated")
    search.annotate(suspend="false")
    search.trains(lambda _: "3")
    assert search.conditions["Complete"][0] == "True"
    assert search.conditions["Created"][2] == "3 of 3 TrainJobs created"


def test_trials_that_are_deleted(search: Search) -> None:
    search.start()
    search.job(numTrials=3)
    search.stored.delete("trainjob", "s-1", SPACE)
    search.advance(1)
    assert (search.record[0]["state"], search.record[0]["reason"]) == ("failed", "Deleted")
    search.ends("s-2", "2")
    search.stored.delete("trainjob", "s-2", SPACE)
    search.advance(1)
    search.ends("s-3", "3")
    assert search.columns == ["3/3", "0", "1", "2"]
    assert search.found["status"]["result"]["trainJobName"] == "s-2"


@pytest.mark.virtual_cluster(controllers=True)
def test_all_goes_with_the_search(search: Search) -> None:
    search.start()
    search.job(numTrials=3, parallelTrials=2)
    search.ends("s-1", "2")
    search.stored.delete("optimizationjob", "s", SPACE)
    search.advance(60)
    assert search.trials() == []
    assert search.stored.get("configmap", "s-trials", SPACE) is None
    # The next of that name begins anew.
    search.job(numTrials=2)
    assert search.columns == ["0/2", "1", "0"]


def test_a_status_that_is_edited_is_repaired(search: Search) -> None:
    search.start()
    search.job(numTrials=2)
    search.trains(lambda parameters: parameters["x"])
    before = search.found["status"]
    edited: dict[str, Any] = {"conditions": before["conditions"][:1], "result": {"trainJobName": "mine"}}
    search.stored.patch("optimizationjob", "s", {"status": edited}, SPACE, subresource="status")
    search.advance(SETTLE_SECONDS)
    repaired = search.found["status"]
    assert repaired["result"] == before["result"]
    assert {one["type"]: one["message"] for one in repaired["conditions"]} == {
        one["type"]: one["message"] for one in before["conditions"]
    }


FORGED = {"reason": "Mine", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def test_what_others_write_into_the_status_goes(search: Search) -> None:
    search.start()
    search.job(numTrials=2)
    forged = [{"type": name, "status": "True", **FORGED} for name in ("Complete", "Failed", "BestTrial", "Theirs")]
    edited = {"conditions": forged, "result": {"trainJobName": "mine", "parameters": [{"name": "y", "value": "1"}]}}
    search.stored.patch("optimizationjob", "s", {"status": edited}, SPACE, subresource="status")
    search.advance(5)
    # A condition of another type may be another program's.
    assert search.conditions.keys() == {"Created", "Theirs", "TrialsEnded", "TrialsRunning", "TrialsFailed"}
    assert "result" not in search.found["status"]
    search.ends("s-1", "1")
    result = search.found["status"]["result"]
    more = [*result["parameters"], {"name": "y", "value": "1"}]
    patch = {"status": {"result": {"trainJobName": "s-1", "parameters": more}}}
    search.stored.patch("optimizationjob", "s", patch, SPACE, subresource="status")
    search.advance(5)
    assert search.found["status"]["result"] == result
    search.ends("s-2", "2")
    assert search.conditions["Complete"][:2] == ("True", "MaxTrialsReached")


def test_an_end_that_is_forged_before_the_first_record_goes(search: Search) -> None:
    forged = {"conditions": [{"type": "Complete", "status": "True", **FORGED}]}
    search.job(numTrials=2)  # before the manager runs
    search.stored.patch("optimizationjob", "s", {"status": forged}, SPACE, subresource="status")
    search.start()
    search.advance(5)
    assert list(search.running()) == ["s-1"]
    assert "Complete" not in search.conditions


@pytest.mark.parametrize("left", [[], ["s-2"]], ids=["none", "one"])
def test_a_search_that_has_ended_does_not_begin_again(search: Search, left: list[str]) -> None:
    search.start()
    search.job(numTrials=2)
    search.trains(lambda parameters: parameters["x"])
    status = search.found["status"]
    for name in {"s-1", "s-2"} - set(left):
        search.stored.delete("trainjob", name, SPACE)
    search.advance(5)
    search.stored.delete("configmap", "s-trials", SPACE)
    search.annotate(note="touched")
    assert [one["metadata"]["name"] for one in search.trials()] == left
    assert search.found["status"] == status


def test_a_record_that_is_refused_is_said_and_nothing_is_made(search: Search) -> None:
    refused = Forbidden("exceeded quota: configmaps")
    search.cluster.refuse("/configmaps", refused, until=search.cluster.seconds + 60)
    search.start()
    search.job(numTrials=2)
    assert search.trials() == []
    status, reason, message = search.conditions["Created"]
    assert (status, reason) == ("False", "TrainJobsCreationFailed")
    assert "ConfigMap s-trials, is refused: " in message
    assert "exceeded quota" in message
    search.advance(600)
    assert search.conditions["Created"][0] == "True"
    search.cluster.refuse("/configmaps", refused, until=search.cluster.seconds + 60)
    search.ends("s-1", "1")
    assert search.conditions["Created"][1] == "TrainJobsCreationFailed"
    search.advance(600)
    assert search.columns == ["1/2", "1", "0", "1"]


def test_a_value_that_was_known_outlives_its_train_job(search: Search) -> None:
    search.start()
    search.job()
    search.trainer.report(50, "s-1", loss="5")
    search.advance(SETTLE_SECONDS)
    end_now(search)
    search.advance(1)
    search.stored.delete("trainjob", "s-1", SPACE)
    search.advance(SETTLE_SECONDS)
    assert (search.record[0]["state"], search.record[0]["value"]) == ("complete", 5)


def test_a_name_that_is_taken_is_said_and_tried_again(search: Search) -> None:
    search.start()
    search.trainer.job("s-2")
    search.job(numTrials=3, parallelTrials=3)
    assert [one["metadata"]["name"] for one in search.trials()] == ["s-1", "s-2", "s-3"]
    status, reason, message = search.conditions["Created"]
    assert (status, reason) == ("False", "TrainJobsCreationFailed")
    assert message == "TrainJob s-2 exists and is not of this search, which needs the name; delete it"
    search.stored.delete("trainjob", "s-2", SPACE)
    search.advance(600)
    assert search.conditions["Created"][0] == "True"
    assert [one["number"] for one in search.record] == [1, 2, 3]


def test_a_hundred_trials_stay_within_bounds(search: Search) -> None:
    names = [f"p{number:02}" + "y" * 30 for number in range(12)]
    choices = ["c" * 60, "d" * 60]
    search.start()
    listed = search.cluster.requests("/trainjobs")
    search.job(
        numTrials=100,
        parallelTrials=100,
        parameters=[{"name": name, "searchSpace": {"categorical": {"choices": choices}}} for name in names],
    )
    for number in range(1, 101):
        search.trainer.report(100, f"s-{number}", loss=str(101 - number))
        search.trainer.ended("Completed", f"s-{number}")
    search.advance(5)
    assert search.columns == ["100/100", "0", "0", "1"]
    record = search.stored.get("configmap", "s-trials", SPACE)
    assert record is not None
    assert len(record["data"]["trials"].encode()) <= 64 * 1024
    assert len(search.record[99]["parameters"]) == 12
    assert len(search.found["status"]["result"]["parameters"]) == 12
    assert {one["number"]: one["value"] for one in search.record} == {n: 101.0 - n for n in range(1, 101)}
    assert [method for _, method in listed].count("GET") <= 1


def test_the_example_of_the_proposal_runs(search: Search) -> None:
    (document,) = documents(Path(__file__).with_name("proposal.yaml"))
    runtime = runtime_document("pytorch-distributed")
    search.stored.create({**runtime, "kind": "ClusterTrainingRuntime"})
    search.start()
    search.admit()
    search.stored.create({**document, "metadata": {**document["metadata"], "namespace": SPACE}})
    search.advance(1)
    made = search.stored.list("trainjobs", SPACE)
    assert sorted(one["metadata"]["name"] for one in made) == [f"random-tuning-mvp-{number}" for number in range(1, 5)]
    for one in made:
        env = {variable["name"]: variable["value"] for variable in one["spec"]["trainer"]["env"]}
        assert env.keys() == {"KUBEFLOW_TRAINER_OPT_LEARNING_RATE", "KUBEFLOW_TRAINER_OPT_BATCH_SIZE"}
        assert 0.0001 <= float(env["KUBEFLOW_TRAINER_OPT_LEARNING_RATE"]) <= 0.1
        assert env["KUBEFLOW_TRAINER_OPT_BATCH_SIZE"] in ("16", "32", "64")


def test_without_the_gate_a_search_is_accepted_with_a_warning_and_nothing_happens(search: Search) -> None:
    search.start(OptimizationJob=False)
    search.admit()
    search.job()
    search.advance(60)
    assert search.trials() == []
    assert "status" not in search.found
