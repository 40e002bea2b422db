# SPDX-License-Identifier: Apache-2.0
"""A search as commands and the page show it: its trials, the best one, and how it stands in words."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from tests import builders
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.objects import Document, Key
from trainwright.api.trainer.v1alpha1 import OptimizationJob, TrainJob
from trainwright.controller.views import search, text
from trainwright.controller.views.job import History, JobViews, sorted_views, view_of
from trainwright.controller.views.search import SearchView, search_of

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
LONG_AGO = "2026-11-29T11:00:00Z"


def condition(kind: str, status: str = "True", message: str = "") -> Document:
    return builders.condition(kind, status, "Why", message, at=LONG_AGO)


def search_job(*conditions: Document, direction: str = "Minimize") -> OptimizationJob:
    space = {"logUniform": {"min": "1e-5", "max": "1", "type": "Float"}}
    spec = {
        "objectives": [{"metric": "loss", "direction": direction}],
        "parameters": [
            {"name": "lr", "searchSpace": space},
            {"name": "batch", "searchSpace": {"categorical": {"choices": ["16", "32"]}}},
        ],
        "numTrials": 6,
        "parallelTrials": 2,
        "trainJobTemplate": {"spec": {"runtimeRef": {"name": "torch-distributed"}}},
    }
    document = {"metadata": {"name": "digits", "namespace": "team", "uid": "u"}, "spec": spec}
    return msgspec.convert({**document, "status": {"conditions": list(conditions)}}, OptimizationJob)


def trial(number: int, loss: float | None = None, *conditions: Document, percentage: int = 100) -> TrainJob:
    status: Document = {"conditions": list(conditions)}
    if loss is not None:
        metrics = [{"name": "loss", "value": str(loss)}]
        status["trainerStatus"] = {
            "progressPercentage": percentage,
            "metrics": metrics,
            "lastUpdatedTime": LONG_AGO,
        }
    annotations = {"trainwright.io/trial-parameters": json.dumps({"lr": f"0.00{number}", "batch": "32"})}
    metadata = {
        "name": f"digits-{number}",
        "namespace": "team",
        "creationTimestamp": f"2026-11-29T11:0{number}:00Z",
        "labels": {"trainwright.io/optimization-job": "digits"},
        "annotations": annotations,
    }
    spec = {"runtimeRef": {"name": "torch-distributed"}}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, TrainJob)


JOBS = [
    trial(1, 0.5, condition("Complete")),
    trial(3, None, condition("Failed", message="rank 0 failed")),
    trial(4, 0.25, condition("Complete")),
    trial(5, 0.75, percentage=40),
]
RECORD = ConfigMap(data={"trials": json.dumps([{"number": 2, "state": "complete", "value": 0.125}])})


def view(job: OptimizationJob | None = None, jobs: Sequence[TrainJob] = JOBS) -> SearchView:
    return search_of(job if job is not None else search_job(), jobs, RECORD, NOW)


def test_trials_are_shown_with_those_whose_jobs_are_gone_and_the_best_is_marked() -> None:
    found = view()
    assert text.aligned([search.columns(found), *(search.row(found, one) for one in found.trials)]) == [
        "    TRIAL   STATE         LOSS    lr      batch",
        "    1       Complete      0.5     0.001   32",
        "*   2       Complete      0.125   -       -",
        "    3       Failed        -       0.003   32",
        "    4       Complete      0.25    0.004   32",
        "    5       Pending 40%   -       0.005   32",
    ]
    assert search.summary(found) == "4/6 trials, 1 not over, 1 failed, best loss 0.125 (trial 2)"
    highest = view(search_job(direction="Maximize")).best
    assert highest is not None
    assert highest.trial.number == 1


def test_how_a_search_stands_in_words_and_as_data() -> None:
    waiting = {"digits-5": "no node has room"}
    assert search.lines_of(view(), waiting) == [
        "OptimizationJob team/digits: Running",
        "  4/6 trials, 1 not over, 1 failed, best loss 0.125 (trial 2)",
        "  best: TrainJob digits-2",
        "  TrainJob digits-5 waits: no node has room",
        "  TrainJob digits-3 failed: rank 0 failed",
    ]
    blocked = view(search_job(condition("Created", "False", "the sampler did not answer within 60 s")))
    assert search.lines_of(blocked, {})[0] == "OptimizationJob team/digits: Blocked"
    assert "  the sampler did not answer within 60 s" in search.lines_of(blocked, {})
    stopped = search_job(condition("Created", message="5 of 6 TrainJobs created"))
    stopped.metadata_or_empty.annotations = {"trainwright.io/suspend": "true"}
    assert search.lines_of(view(stopped), {})[0] == "OptimizationJob team/digits: Paused"
    assert "  the search is stopped: no trial begins until its annotation" in "\n".join(
        search.lines_of(view(stopped), {})
    )
    assert (search.as_json(view(stopped), {})["state"], view(stopped).heard) == ("Paused", False)
    ended = view(search_job(condition("Failed", message="5 trials failed")))
    assert (ended.failed, ended.ended, ended.message) == (True, "Why", "5 trials failed")
    data = search.as_json(view(), waiting)
    assert (data["state"], data["best"], data["limit"]) == ("Running", 2, 6)
    assert [one["message"] for one in data["trials"]] == [None, None, "rank 0 failed", None, "no node has room"]
    assert search.as_json(ended, {})["state"] == "Failed"


def test_trials_stand_together_in_lists_and_are_summed_up() -> None:
    other = trial(9, None, condition("Complete"))
    assert other.metadata is not None
    other.metadata.name, other.metadata.labels = "alone", None
    views = sorted_views([view_of(one, History(), NOW) for one in [*JOBS, other]])
    assert [one.name for one in views] == ["digits-5", "digits-3", "digits-4", "digits-1", "alone"]
    counts = "4 trials, 1 Pending, 1 Failed, 2 Complete"
    assert text.searches(JobViews(views=views, now=NOW)) == [f"search digits: {counts}"]
    stopped = JobViews(views=views, now=NOW, stopped=[Key("team", "digits")])
    assert text.searches(stopped) == [f"search digits (stopped): {counts}"]
    assert text.searches(JobViews(views=views[-1:], now=NOW)) == []
