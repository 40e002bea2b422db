# SPDX-License-Identifier: Apache-2.0
"""Pods of the local cluster do what those of a real node did (tests/kubelet), except where that is declared.

Compared is what a client sees: status, events, logs, and what `exec` answers.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping

import pytest

from tests.kubelet import answers
from tests.kubelet.answers import Document
from tests.kubelet.model import Case, load_all
from tests.unit.local.node.modes import REFUSED
from trainwright.controller.local.testing.cluster import LocalCluster
from trainwright.controller.runtime import Client, HTTPTransport, load_config

CASES = load_all()
# Without namespaces, names and paths are rewritten, and nothing can be mounted read-only; that has tests of its own.
pytestmark = pytest.mark.only_where(not REFUSED, f"this machine refuses namespaces: {REFUSED}")


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest) -> Iterator[Mapping[str, list[Document] | Exception]]:
    """The answers of all cases of this run; they mostly wait, so they run side by side."""
    # Those that are selected.
    specs = [getattr(item, "callspec", None) for item in request.session.items]
    wanted = [spec.params.get("case") for spec in specs if spec is not None]
    names = {case.name for case in wanted if isinstance(case, Case)}
    with LocalCluster(controllers=True) as cluster:

        async def run() -> dict[str, list[Document] | Exception]:
            client = Client(HTTPTransport(load_config(cluster.kubeconfig)), user_agent="test")
            try:
                return await answers.run_all(
                    client, cluster.create_namespace, [one for one in CASES if one.name in names]
                )
            finally:
                await client.close()

        yield asyncio.run(run())


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_pod_does_as_on_a_real_node(case: Case, found: Mapping[str, list[Document] | Exception]) -> None:
    ours = found[case.name]
    if isinstance(ours, Exception):
        raise ours
    undeclared, unused = answers.undeclared(case.name, answers.differences(answers.read(case.area)[case.name], ours))
    shown = "\n".join(
        f"{place}: real {json.dumps(real)}, here {json.dumps(here)}" for place, (real, here) in undeclared.items()
    )
    assert not undeclared, shown
    assert not unused, f"docs/local-differences.md declares differences that do not occur: {unused}"


def test_rows_name_cases() -> None:
    assert answers.named() <= {case.name for case in CASES} | {answers.ALL}
    assert len({case.name for case in CASES}) == len(CASES), "two cases have one name"
