# SPDX-License-Identifier: Apache-2.0
"""Which pod goes where, and why not, as tables."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.local.controllers.objects import made_cases, node, pod
from trainwright.api.nodes import selects, untolerated
from trainwright.api.objects import Document, Key, name_of
from trainwright.api.quantity import Quantity
from trainwright.controller.local.controllers.scheduler import NO_NODES, Scheduler, places_of, requests_of, schedule
from trainwright.controller.runtime.errors import BadRequest, ErrorCause, Forbidden

CASES = made_cases(__file__)


@pytest.mark.parametrize(("spec", "cpu"), CASES["requests"])
def test_requests(spec: Document, cpu: str | None) -> None:
    assert requests_of({"spec": spec}).get("cpu") == (Quantity.parse(cpu) if cpu else None)


@pytest.mark.parametrize(("requirement", "matches"), CASES["expressions"])
def test_expressions(requirement: Document, matches: bool) -> None:
    labels = {"a": "1", "b": "text"}
    required = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
    spec = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}
    assert selects(spec, node(labels=labels)) == matches


@pytest.mark.parametrize(("terms", "matches"), CASES["terms_are_alternatives"])
def test_terms_are_alternatives(terms: list[Document], matches: bool) -> None:
    spec = {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    }
    assert selects(spec, node(labels={"a": "1"})) == matches


@pytest.mark.parametrize(("tolerations", "taint", "away"), CASES["taints"])
def test_taints(tolerations: list[Document], taint: Document, away: bool) -> None:
    assert bool(untolerated({"tolerations": tolerations}, node(taints=[taint]))) == away


def pending(name: str = "new", **fields: Any) -> Document:
    return pod(name, "Pending", node="", **fields)


FIRST = "0/1 nodes are available: "
TAIL = ". no new claims to deallocate, preemption: 0/1 nodes are available: "
VICTIMS = f"{TAIL}1 No preemption victims found for incoming pod."


@pytest.mark.parametrize(("new", "others", "where", "message"), CASES["a_pod_and_a_node"])
def test_a_pod_and_a_node(new: Document, others: list[Document], where: Document, message: str | None) -> None:
    (verdict,) = schedule([new], places_of([where], others, {}))
    assert (verdict.message, verdict.node) == ((message, "") if message else ("", "laptop"))


def test_without_a_node() -> None:
    (verdict,) = schedule([pending()], [])
    assert verdict.message == NO_NODES


def test_the_most_important_pod_is_first_and_nobody_is_held_up() -> None:
    pods = [
        pending("low", cpu="3"),
        pending("high", cpu="3", spec={"priority": 10}),
        pending("small", cpu="1"),
    ]
    verdicts = list(schedule(pods, places_of([node()], [], {})))
    assert [(name_of(verdict.pod), verdict.node) for verdict in verdicts] == [
        ("high", "laptop"),
        ("low", ""),
        ("small", "laptop"),
    ]


def test_what_was_just_bound_takes_room() -> None:
    unseen = pending("unseen", cpu="4")
    (verdict,) = schedule([pending()], places_of([node()], [unseen], {"uid-unseen": "laptop"}))
    assert verdict.message


def test_the_second_node_is_tried() -> None:
    nodes = [node("a", cpu="1"), node("b", cpu="2")]
    big, small = schedule([pending(cpu="2"), pending("big", cpu="9")], places_of(nodes, [], {}))
    assert small.node == "b"
    assert big.message.startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_the_node_may_object() -> None:
    def check(new: Document, others: Sequence[Document]) -> str | None:
        return f"{len(others)} pods are here" if others else None

    first, second = schedule([pending("a"), pending("b")], places_of([node()], [], {}), check)
    assert first.node == "laptop"
    assert second.message == f"{FIRST}1 1 pods are here{VICTIMS}"


class Cluster:
    """A manager with pods and one node. Binding the pods in `refused` fails."""

    def __init__(self, pods: Sequence[Document], refused: dict[str, Exception]) -> None:
        self.client = self.cache = self
        self.bound: list[str] = []
        self._listed = {"Pod": list(pods), "Node": [node()]}
        self._refused = refused

    def controller(self, name: str) -> "Cluster":  # noqa: ARG002
        return self

    def watches(self, kind: Any, mapping: Any) -> "Cluster":  # noqa: ARG002
        return self

    def reconcile(self, function: Any, workers: int) -> None:
        """Nothing runs it."""

    def list(self, kind: Any) -> Sequence[Document]:
        return self._listed[kind.kind]

    def add(self, *runnable: Any) -> None:
        """Nothing runs it."""

    async def post_subresource(self, kind: Any, name: str, *rest: Any) -> None:  # noqa: ARG002
        if name in self._refused:
            raise self._refused[name]
        self.bound.append(name)


async def test_a_refused_binding_does_not_hold_up_other_pods() -> None:
    pods = [{"apiVersion": "v1", "kind": "Pod", **pending(name)} for name in ("a", "b", "c")]
    ending = Forbidden(
        "it ends", code=403, causes=(ErrorCause("NamespaceTerminating", "metadata.namespace", "it ends"),)
    )
    made: Any = Cluster(pods, {"a": BadRequest("a webhook refuses", code=400), "b": ending})
    with pytest.raises(BadRequest, match="a webhook refuses"):
        await Scheduler(made).reconcile(Key("", ""))
    assert made.bound == ["c"]
    made = Cluster(pods, {"a": ending})
    await Scheduler(made).reconcile(Key("", ""))
    assert made.bound == ["b", "c"]
