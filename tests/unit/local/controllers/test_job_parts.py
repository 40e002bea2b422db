# SPDX-License-Identifier: Apache-2.0
"""The parts of a Job's decision: indexes, delays, policies, the pod."""

from typing import Any

import pytest

from tests.unit.local.controllers.objects import NOW, TRACKING, job, made_cases
from trainwright.controller.local.controllers.job_pods import (
    Failures,
    absent_indexes,
    indexes_text,
    judge,
    met,
    name_prefix,
    pod_of,
    read_indexes,
)

CASES = made_cases(__file__)


@pytest.mark.parametrize(("indexes", "text"), CASES["indexes_are_written_as_in_kubernetes"])
def test_indexes_are_written_as_in_kubernetes(indexes: list[int], text: str) -> None:
    assert indexes_text(set(indexes)) == text
    assert read_indexes(text, 100) == set(indexes)


def test_what_is_no_index_is_dropped() -> None:
    assert read_indexes("0,x,2-y,3-9,12", 6) == {0, 3, 4, 5}
    assert read_indexes(None, 6) == set()


@pytest.mark.parametrize(("count", "absent"), [(-1, []), (0, []), (2, [1, 3]), (9, [1, 3, 4])])
def test_absent_indexes(count: int, absent: list[int]) -> None:
    assert absent_indexes({0, 2, 7}, count, 5) == absent


@pytest.mark.parametrize(
    ("failures", "left"),
    [
        (Failures(), 0.0),
        (Failures(1, NOW), 10.0),
        (Failures(2, NOW), 20.0),
        (Failures(6, NOW), 320.0),
        (Failures(7, NOW), 600.0),
        (Failures(1_000_000, NOW), 600.0),
    ],
)
def test_delays_double(failures: Failures, left: float) -> None:
    assert failures.seconds_left(NOW) == left


@pytest.mark.parametrize(("succeeded", "failed", "count"), CASES["a_success_ends_the_row_of_failures"])
def test_a_success_ends_the_row_of_failures(succeeded: list[Any], failed: list[Any], count: int) -> None:
    assert Failures(2, NOW).after(succeeded, failed).count == count


@pytest.mark.parametrize(("rules", "failed", "counts", "message"), CASES["the_first_rule_that_matches_decides"])
def test_the_first_rule_that_matches_decides(rules: list[Any], failed: Any, counts: bool, message: str | None) -> None:
    verdict = judge({"rules": rules}, failed)
    assert (verdict.counts, verdict.message) == (counts, message)


@pytest.mark.parametrize(("rule", "succeeded", "is_met"), CASES["success_policy"])
def test_success_policy(rule: dict[str, Any], succeeded: list[int], is_met: bool) -> None:
    message = met({"rules": [rule]}, 5, frozenset(succeeded))
    assert message == ("Matched rules at index 0" if is_met else None)


def test_a_pod_is_the_template_with_the_jobs_marks() -> None:
    template: dict[str, Any] = {
        "metadata": {"labels": {"a": "b"}, "finalizers": ["mine"]},
        "spec": {
            "unknown": {"kept": [1]},
            "initContainers": [{"name": "first"}],
            "containers": [{"name": "main", "env": [{"name": "JOB_COMPLETION_INDEX", "value": "mine"}]}],
        },
    }
    owner = job(template=template, completionMode="Indexed")
    made = pod_of(owner, 3)
    index = "batch.kubernetes.io/job-completion-index"
    assert made["metadata"] == {
        "generateName": "job-3-",
        "namespace": "ns",
        "labels": {"a": "b", index: "3"},
        "annotations": {index: "3"},
        "finalizers": ["mine", TRACKING],
        "ownerReferences": [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": "job",
                "uid": "uid-job",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    reference = {"fieldRef": {"fieldPath": f"metadata.labels['{index}']"}}
    assert made["spec"] == {
        "unknown": {"kept": [1]},
        "hostname": "job-3",
        "initContainers": [{"name": "first", "env": [{"name": "JOB_COMPLETION_INDEX", "valueFrom": reference}]}],
        "containers": template["spec"]["containers"],
    }
    assert "env" not in template["spec"]["initContainers"][0], "the Job itself is not changed"


@pytest.mark.parametrize(
    ("name", "index", "prefix"),
    [
        ("job", None, "job-"),
        ("job", 12, "job-12-"),
        ("j" * 60, 12, "j" * 54 + "-12-"),
    ],
)
def test_the_index_stays_in_a_long_name(name: str, index: int | None, prefix: str) -> None:
    assert name_prefix(job(name), index) == prefix
