# SPDX-License-Identifier: Apache-2.0
"""Mode B: which names and paths in a text are replaced, and which are left alone."""

import pytest

from tests.cases import cases
from tests.unit.local.node.pods import member, pod
from trainwright.controller.local.node.plan import Rewriter
from trainwright.controller.local.node.ports import group_of, name_pattern, names_of, peers_of

CASES = cases(__file__)

FOLDERS = {"/workspace": "/v/w", "/workspace/dataset/": "/v/d", "/data": "/v/data", "/dev/termination-log": "/c/t"}


@pytest.mark.parametrize(("text", "wanted"), CASES["paths"])
def test_paths(text: str, wanted: str) -> None:
    assert Rewriter(None, FOLDERS).text(text) == wanted


@pytest.mark.parametrize(("path", "wanted"), CASES["the_folder_of_a_path"])
def test_the_folder_of_a_path(path: str, wanted: str | None) -> None:
    assert Rewriter(None, FOLDERS).path(path) == wanted


@pytest.mark.parametrize(("text", "wanted"), CASES["names_of_a_jobset"])
def test_names_of_a_jobset(text: str, wanted: str) -> None:
    """Not those of pods with their suffix, nor of jobs, nor short ones of other replicated jobs."""
    one = member(1)
    assert Rewriter(name_pattern(one, [one]), {}).text(text) == wanted


def test_the_pattern_does_not_grow_with_the_jobset() -> None:
    one, many = member(0), [member(index) for index in range(200)]
    few, all_of_them = (name_pattern(one, pods) for pods in ([one], many))
    assert few is not None
    assert few == all_of_them
    # The short names of another replicated job have no form that is theirs alone.
    mixed = name_pattern(one, [one, member(0, job="launcher")])
    assert mixed is not None
    assert mixed.fullmatch("mnist-launcher-0-0")


def test_names_of_an_indexed_job() -> None:
    labels = {"batch.kubernetes.io/job-name": "fit", "batch.kubernetes.io/job-completion-index": "0"}
    one = pod(name="fit-0-abcde", labels=labels, hostname="fit-0", subdomain="fit")
    rewriter = Rewriter(name_pattern(one, []), {})
    texts = ["fit-3.fit.ns.svc:80", "fit-0", "fit", "fit.py", "benefit-3.fit"]
    assert [rewriter.text(one) for one in texts] == ["127.0.0.1:80", "127.0.0.1", "fit", "fit.py", "benefit-3.fit"]


def test_a_pod_alone_has_no_names_that_others_know() -> None:
    one = pod(name="train")
    assert names_of(one) == []
    assert name_pattern(one, [one, pod(name="other")]) is None
    assert peers_of(one, [one, pod(name="other")]) == [one]


def test_plain_words_are_not_taken_for_host_names() -> None:
    one = pod(name="w", hostname="worker", subdomain="train")
    rewriter = Rewriter(name_pattern(one, [one]), {})
    found = [rewriter.text(word) for word in ("worker", "worker.train", "worker.py", "train")]
    assert found == ["worker", "127.0.0.1", "worker.py", "train"]


def test_peers_are_of_one_namespace_and_group() -> None:
    one, two, other = member(0), member(1), member(0, jobset="other")
    elsewhere = member(2)
    elsewhere["metadata"]["namespace"] = "elsewhere"
    assert peers_of(one, [one, two, other, elsewhere]) == [one, two]
    assert group_of(one) == ("ns", "mnist")
