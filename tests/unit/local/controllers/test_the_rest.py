# SPDX-License-Identifier: Apache-2.0
"""Decisions of the smaller controllers, as tables: garbage, namespaces, claims, finished objects, patches, pods."""

import asyncio
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.local.controllers.objects import NOW, at, condition, job, made_cases, pod
from trainwright.api.objects import Document, key_of, name_of
from trainwright.api.times import parse
from trainwright.controller.local.controllers.base import each_slowly
from trainwright.controller.local.controllers.claims import folder_in, plan_for_claim, plan_for_volume, volume_of
from trainwright.controller.local.controllers.garbage import SYNC_SECONDS, Graph, OwnerState, plan
from trainwright.controller.local.controllers.job import JobController, plan_for_finished
from trainwright.controller.local.controllers.namespaces import Content, conditions, plan_for_deletion
from trainwright.controller.local.controllers.objects import (
    CONFIG_MAP,
    JOB,
    POD,
    finished_at,
    in_order_of_removal,
    merge_patch,
)
from trainwright.controller.runtime import NO_SERVERS, ClusterConfig, Event, Manager
from trainwright.controller.runtime.cache.store import EventType
from trainwright.controller.runtime.testing.clock import jumping
from trainwright.controller.runtime.testing.scripted import ScriptedTransport

CASES = made_cases(__file__)

# ---------------------------------------------------------------------- garbage


def thing(name: str = "it", *owners: str, finalizer: str = "", deleted: bool = False, block: bool = True) -> Document:
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": owner, "blockOwnerDeletion": block}
        for owner in owners
    ]
    metadata: Document = {"name": name, "uid": name, "ownerReferences": references}
    if finalizer:
        metadata["finalizers"] = [finalizer]
    if deleted:
        metadata["deletionTimestamp"] = at(0)
    return {"metadata": metadata}


SOLID, ABSENT, WAITING = OwnerState.SOLID, OwnerState.ABSENT, OwnerState.WAITING
IN_FOREGROUND = thing("below", "it", finalizer="foregroundDeletion", deleted=True)


def owned(*owners: str, block: bool = True) -> Document:
    return {"ownerReferences": thing("it", *owners, block=block)["metadata"]["ownerReferences"]}


@pytest.mark.parametrize(
    ("obj", "owners", "dependents", "writes"),
    [
        (thing(), {}, [], []),
        (thing("it", "a"), {"a": SOLID}, [], []),
        (thing("it", "a"), {"a": ABSENT}, [], ["Background"]),
        (thing("it", "a", finalizer="orphan"), {"a": ABSENT}, [], ["Orphan"]),
        (thing("it", "a", finalizer="foregroundDeletion"), {"a": ABSENT}, [], ["Foreground"]),
        (thing("it", "a", deleted=True), {"a": ABSENT}, [], []),
        (thing("it", "a"), {"a": WAITING}, [], ["Background"]),
        (thing("it", "a"), {"a": WAITING}, [thing("below", "it")], ["Foreground"]),
        (thing("it", "a"), {"a": WAITING}, [IN_FOREGROUND], [("it", owned("a", block=False))]),
        (thing("it", "a", block=False), {"a": WAITING}, [IN_FOREGROUND], ["Foreground"]),
        (thing("it", "a", "b", "c"), {"a": SOLID, "b": ABSENT, "c": WAITING}, [], [("it", owned("a"))]),
        (
            thing("it", finalizer="foregroundDeletion", deleted=True),
            {},
            [thing("below", "it", block=False)],
            [("it", {"finalizers": []})],
        ),
        (thing("it", finalizer="foregroundDeletion", deleted=True), {}, [thing("below", "it"), IN_FOREGROUND], []),
        (
            thing("it", finalizer="orphan", deleted=True),
            {},
            [thing("below", "it", "other")],
            [("below", owned("other")), ("it", {"finalizers": []})],
        ),
    ],
)
def test_garbage(obj: Document, owners: dict[str, OwnerState], dependents: list[Document], writes: list[Any]) -> None:
    """A deletion is shown by its propagation, a change by the object and its metadata."""
    made = plan(CONFIG_MAP, obj, owners, [(CONFIG_MAP, one) for one in dependents])
    for write in made.writes:
        metadata = write.body.get("metadata", {})
        assert metadata.pop("uid", name_of(write.obj)) == name_of(write.obj)
        assert metadata.pop("resourceVersion", "") == write.options.get("resource_version", "")
    shown = [
        write.options["propagation"] if write.verb == "delete" else (name_of(write.obj), write.body["metadata"])
        for write in made.writes
    ]
    assert shown == writes
    waits = "foregroundDeletion" in obj["metadata"].get("finalizers", ()) and len(dependents) > 1
    assert [item.key.name for item in made.look_at] == (["below"] if waits else [])


@jumping
async def test_a_kind_that_cannot_be_listed_holds_up_the_collector_for_a_while() -> None:
    """Such as one whose conversion webhook is down."""
    manager = Manager(ClusterConfig(server="http://script"), transport=ScriptedTransport(), servers=NO_SERVERS)
    graph, loop = Graph(manager.cache, lambda *_: None), asyncio.get_running_loop()
    graph.follow([POD, JOB])
    states, before = [graph.synced], loop.time()
    await graph.wait_synced()
    states.append(graph.synced)
    assert states == [False, True]
    assert loop.time() - before == pytest.approx(SYNC_SECONDS)
    await manager.client.close()


# ---------------------------------------------------------------------- namespaces


def test_what_is_left_is_named() -> None:
    content = Content(Counter({JOB: 2, POD: 1}), Counter(a=2, b=1), ["no"])
    assert not content.is_empty
    messages = {c["type"]: c["message"] for c in conditions({}, content, NOW) if c["status"] == "True"}
    assert messages == {
        "NamespaceDeletionContentFailure": "Failed to delete all resource types, 1 remaining: no",
        "NamespaceContentRemaining": (
            "Some resources are remaining: jobs.batch has 2 resource instances, pods. has 1 resource instances"
        ),
        "NamespaceFinalizersRemaining": (
            "Some content in the namespace has finalizers remaining: a in 2 resource instances, b in 1 resource"
            " instances"
        ),
    }
    assert not Content(undiscovered="down").is_empty


def test_a_namespace_goes_once_it_is_said_that_nothing_is_left() -> None:
    namespace: Document = {"metadata": {"name": "n"}, "spec": {"finalizers": ["kubernetes", "mine"]}}
    held = Content(Counter({POD: 1}))
    for content, wanted in ((held, (None, [], 1.0)), (Content(), (None, [{"finalizers": ["mine"]}], None))):
        said = plan_for_deletion(namespace, content, NOW)
        assert (said.status["phase"], said.writes) == ("Terminating", [])
        namespace["status"] = said.status
        step = plan_for_deletion(namespace, content, NOW + timedelta(9))
        assert (step.status or None, [write.body for write in step.writes], step.look_again) == wanted


# ---------------------------------------------------------------------- claims


def test_a_claim_is_bound_to_its_folder() -> None:
    claim: Document = {
        "metadata": {"name": "data", "namespace": "ns", "uid": "u", "resourceVersion": "5"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "3Gi"}}},
    }
    volume = volume_of(claim, Path("/state"))
    assert name_of(volume) == "pvc-u"
    assert volume["spec"]["hostPath"]["path"] == "/state/ns-data-u"
    assert volume["spec"]["claimRef"]["uid"] == "u"
    (write,) = plan_for_claim(claim, volume).writes
    assert write.body["spec"] == {"volumeName": "pvc-u"}
    finalizers = write.body["metadata"]["finalizers"]
    assert finalizers == ["kubernetes.io/pvc-protection"], "or its folder goes under a running pod"
    claim["metadata"] |= write.body["metadata"]
    claim["spec"] |= write.body["spec"]
    bound = {"phase": "Bound", "accessModes": ["ReadWriteMany"], "capacity": {"storage": "3Gi"}}
    assert (plan_for_claim(claim, volume).writes, plan_for_claim(claim, volume).status) == ([], bound)


@pytest.mark.parametrize(("policy", "uid", "phase", "verbs"), CASES["a_volume_goes_with_its_claim"])
def test_a_volume_goes_with_its_claim(policy: str, uid: str, phase: str | None, verbs: list[str]) -> None:
    metadata = {"name": "pvc-u", "uid": "v", "finalizers": ["kubernetes.io/pv-protection"]}
    volume = {"metadata": metadata, "spec": {"claimRef": {"uid": "u"}, "persistentVolumeReclaimPolicy": policy}}
    made = plan_for_volume(volume, {"metadata": {"uid": uid}} if uid else None)
    assert (made.status.get("phase"), [write.verb for write in made.writes]) == (phase, verbs)


@pytest.mark.parametrize(("path", "goes"), CASES["only_a_folder_of_the_root_goes_with_its_volume"])
def test_only_a_folder_of_the_root_goes_with_its_volume(path: str, goes: bool) -> None:
    volume = {"spec": {"hostPath": {"path": path}}}
    assert folder_in(Path("/state/volumes"), volume) == (Path(path) if goes else None)


# ---------------------------------------------------------------------- finished objects


@pytest.mark.parametrize(("owner", "left", "goes"), CASES["time_to_live"])
def test_time_to_live(owner: Document, left: float | None, goes: bool) -> None:
    plan = plan_for_finished(owner, NOW)
    assert (plan.look_again, bool(plan.of("delete"))) == (left, goes)


# ---------------------------------------------------------------------- patches and pods

JSON = st.recursive(
    st.integers() | st.text(max_size=2) | st.booleans(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(st.text(max_size=2), JSON, max_size=4)


def applied(target: Any, patch: Any) -> Any:
    """RFC 7386, as it stands there."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = applied(result.get(name), value)
    return result


@given(DOCUMENTS, DOCUMENTS)
def test_a_merge_patch_leads_to_the_wanted_document(before: Document, after: Document) -> None:
    patch = merge_patch(before, after)
    assert applied(before, patch) == after
    assert merge_patch(after, after) == {}


@pytest.mark.parametrize(
    ("found", "when"),
    [
        (pod(phase="Succeeded", ended=5), 5),
        (pod(conditions=[]), -60),
        (pod(deleted=True), 0),
    ],
)
def test_when_a_pod_finished(found: Document, when: float) -> None:
    assert finished_at(found) == parse(at(when))


def test_a_pod_that_is_not_ready_finished_then() -> None:
    found = pod()
    found["status"]["conditions"] = [condition("Ready", status="False", since=-7)]
    assert finished_at(found) == parse(at(-7))


def test_what_has_got_least_far_goes_first() -> None:
    pods = [
        pod("ready"),
        pod("restarted", restarts=3),
        pod("unready", ready=False),
        pod("pending", "Pending"),
        pod("unbound", "Pending", node=""),
    ]
    names = [name_of(p) for p in in_order_of_removal(pods)]
    assert names == ["unbound", "pending", "unready", "restarted", "ready"]


async def test_what_fails_is_not_tried_for_all() -> None:
    tried = []

    async def fail(number: int) -> None:
        tried.append(number)
        if number >= 2:
            raise ValueError(number)

    errors = await each_slowly(fail, range(100))
    assert tried == [0, 1, 2]
    assert [str(error) for error in errors] == ["2"]


# ---------------------------------------------------------------------- Jobs


async def test_a_job_that_has_ended_is_seen_before_the_first_list_of_pods(caplog: pytest.LogCaptureFixture) -> None:
    """As after a restart. The list of pods brings those with a finalizer, so nothing is lost."""
    manager = Manager(ClusterConfig(server="http://script"), transport=ScriptedTransport(), servers=NO_SERVERS)
    JobController(manager)
    ended = job(status={"conditions": [condition("Complete")]})
    manager.cache.informer(JOB)._notify(Event(EventType.ADDED, key_of(ended), None, ended, initial=True), "1")
    assert caplog.records == []
    await manager.client.close()
