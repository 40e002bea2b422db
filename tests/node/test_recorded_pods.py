# SPDX-License-Identifier: Apache-2.0
"""Pods on the real node still do what is recorded of them (tests/kubelet); the local node is held to the recordings."""

import asyncio
from collections.abc import Mapping

import pytest

from hack.node.cluster import NodeCluster
from tests.kubelet import answers
from tests.kubelet.answers import Document
from tests.kubelet.model import Case, load_all
from tests.kubelet.record import recorded_on

CASES = load_all()


@pytest.fixture(scope="module")
def found(node: NodeCluster) -> Mapping[str, list[Document] | Exception]:
    """The answers of all cases, which run side by side."""
    return asyncio.run(recorded_on(node, CASES))


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_pod_does_what_is_recorded(case: Case, found: Mapping[str, list[Document] | Exception]) -> None:
    now = found[case.name]
    if isinstance(now, Exception):
        raise now
    assert answers.differences(answers.read(case.area)[case.name], now) == {}
