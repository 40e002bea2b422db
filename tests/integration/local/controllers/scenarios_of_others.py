# SPDX-License-Identifier: Apache-2.0
"""Pods without a place, owners that go, objects that are over."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from tests.integration.local.controllers.comparison import Note
from tests.integration.local.controllers.conftest import CONTAINER, World, job_spec
from trainwright.api.objects import Document, name_of, uid_of
from trainwright.controller.local.controllers.objects import (
    ACCOUNT,
    CLUSTER_ROLE,
    CONFIG_MAP,
    JOB,
    NAMESPACE,
    POD,
)
from trainwright.controller.runtime.client.writes import Propagation
from trainwright.controller.runtime.testing.waiting import eventually, is_empty

SETTLED_SECONDS = 2.0


async def pods_have_no_place(world: World, note: Note) -> None:
    async def create(name: str, cpu: str = "1", port: int = 0, app: str = "", **spec: Any) -> None:
        container: Document = {**CONTAINER, "resources": {"requests": {"cpu": cpu}}}
        if port:
            container["ports"] = [{"containerPort": port, "hostPort": port}]
        labels = {"app": app} if app else {}
        pod = {"containers": [container], "terminationGracePeriodSeconds": 1, **spec}
        await world.create(POD, name, pod, labels=labels)

    await create("holder", "6", port=8080, app="alone")
    await world.running(1)
    await create("too-large", "99")
    await create("no-room", "3")
    await create("port", port=8080)
    await create("selector", "0", nodeSelector={"disk": "slow"})
    await create("gated", schedulingGates=[{"name": "example.com/gate"}])
    await create("of-another", schedulerName="another")
    await note("some wait")
    await world.client.delete(POD, "holder", world.namespace)
    await world.running(2)
    await world.client.patch(POD, "gated", world.namespace, {"spec": {"schedulingGates": None}})
    await world.running(3)
    await note("there is room")


def owned(*owners: Document, block: bool = False) -> list[Document]:
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": name_of(o), "uid": uid_of(o), "blockOwnerDeletion": block}
        for o in owners
    ]


async def garbage_goes(world: World, note: Note) -> None:
    async def config_map(name: str, *owners: Document, block: bool = False, **metadata: Any) -> Document:
        return await world.create(CONFIG_MAP, name, {}, ownerReferences=owned(*owners, block=block), **metadata)

    async def delete(owner: Document, propagation: Propagation) -> None:
        await world.client.delete(CONFIG_MAP, name_of(owner), world.namespace, propagation=propagation)

    never = {"metadata": {"name": "never", "uid": "00000000-0000-0000-0000-000000000000"}}
    await config_map("of-nobody", never)
    one, other = await config_map("one"), await config_map("other")
    await config_map("of-both", one, other)
    await config_map("of-one", one)
    await config_map("of-one-and-nobody", one, never)
    await note("of nobody is gone")
    await delete(one, "Background")
    await note("one is gone")
    waiting = await config_map("waiting")
    held = await config_map("held", waiting, block=True, finalizers=["example.com/hold"])
    await config_map("below", held, block=True)
    await config_map("not-blocking", waiting, finalizers=["example.com/hold"])
    await delete(waiting, "Foreground")
    await note("waiting is held")
    await world.client.patch(CONFIG_MAP, "held", world.namespace, {"metadata": {"finalizers": None}})
    await note("waiting is gone")
    giver = await config_map("giver")
    await config_map("given", giver)
    await delete(giver, "Orphan")
    await note("given stays")
    # Two that own each other, both in the foreground.
    first = await config_map("first")
    second = await config_map("second", first, block=True)
    references = owned(second, block=True)
    await world.client.patch(CONFIG_MAP, "first", world.namespace, {"metadata": {"ownerReferences": references}})
    await delete(first, "Foreground")
    await note("the circle is gone")
    await world.client.patch(CONFIG_MAP, "not-blocking", world.namespace, {"metadata": {"finalizers": None}})


async def owners_are_elsewhere(world: World, note: Note) -> None:
    """In another namespace, of another scope, or another object than the one of that uid."""

    async def create(name: str, reference: Document) -> None:
        await world.create(CONFIG_MAP, name, {}, ownerReferences=[reference])

    def reference(kind: str, owner: Document, **other: str) -> Document:
        return {"apiVersion": "v1", "kind": kind, "name": name_of(owner), "uid": uid_of(owner), **other}

    system = await world.client.get(CONFIG_MAP, "kube-root-ca.crt", "kube-system")
    await create("of-another-namespace", reference("ConfigMap", system))
    await world.gone(CONFIG_MAP, "of-another-namespace")
    namespace = await world.client.get(NAMESPACE, world.namespace)
    await create("of-its-namespace", reference("Namespace", namespace))
    await create("of-no-such-namespace", reference("Namespace", namespace, uid="00000000-0000-0000-0000-000000000000"))
    own = await world.create(CONFIG_MAP, "own", {})
    await create("of-another-kind", reference("Secret", own))
    await create("of-another-name", reference("ConfigMap", own, name="other"))
    await note("of its namespace is left")


async def dependent_goes_before_its_owner(world: World, note: Note) -> None:
    owner = await world.create(CONFIG_MAP, "owner", {})
    references = owned(owner, block=True)
    for name in ("held", "other"):
        await world.create(CONFIG_MAP, name, {}, ownerReferences=references, finalizers=["example.com/hold"])
    await world.client.delete(CONFIG_MAP, "owner", world.namespace, propagation="Foreground")
    await world.client.delete(CONFIG_MAP, "held", world.namespace, propagation="Background")
    await note("both wait")
    await world.client.patch(CONFIG_MAP, "held", world.namespace, {"metadata": {"finalizers": None}})
    await note("one waits")
    await world.client.patch(CONFIG_MAP, "other", world.namespace, {"metadata": {"finalizers": None}})
    await note("all are gone")


async def namespace_is_held(world: World, note: Note) -> None:
    await world.create(CONFIG_MAP, "held", {}, finalizers=["example.com/hold"])
    await world.create(JOB, "job", job_spec())
    await world.running(1)
    await world.client.delete(NAMESPACE, world.namespace)

    async def said() -> str:
        return json.dumps((await world.client.get(NAMESPACE, world.namespace))["status"])

    # kube-controller-manager begins five seconds after the deletion.
    await eventually(said, lambda text: "example.com/hold in 1 resource instances" in text)
    await note("held")
    await world.client.patch(CONFIG_MAP, "held", world.namespace, {"metadata": {"finalizers": None}})
    await eventually(lambda: world.all(CONFIG_MAP), is_empty)


async def namespace_gets_its_objects_again(world: World, note: Note) -> None:
    for kind, name in ((ACCOUNT, "default"), (CONFIG_MAP, "kube-root-ca.crt")):
        before = uid_of(await world.until(kind, name, bool))
        await world.client.delete(kind, name, world.namespace)

        def is_new(found: Document, before: str = before) -> bool:
            return uid_of(found) != before

        await world.until(kind, name, is_new)
    await world.client.patch(CONFIG_MAP, "kube-root-ca.crt", world.namespace, {"data": {"ca.crt": "x", "more": "y"}})
    await note("as before")


async def roles_collect_rules(world: World, note: Note) -> None:
    """ClusterRoles are in no namespace, so a ConfigMap says what is in those of this one."""
    mine = world.namespace

    def rule(*resources: str, verb: str = "get") -> Document:
        return {"apiGroups": ["example.com"], "resources": list(resources), "verbs": [verb]}

    async def create(name: str, *rules: Document, selectors: Sequence[str] = (), **labels: str) -> None:
        about = {"name": f"{mine}-{name}", "labels": {"in": mine, **{f"to-{key}": "yes" for key in labels}}}
        role: Document = {"metadata": about, "rules": list(rules)}
        if selectors:
            matching = [{"matchLabels": {"in": mine, f"to-{one}": "yes"}} for one in selectors]
            role["aggregationRule"] = {"clusterRoleSelectors": matching}
        await world.client.create(role, kind=CLUSTER_ROLE)

    async def change(name: str, patch: Document) -> None:
        await world.client.patch(CLUSTER_ROLE, f"{mine}-{name}", "", patch)

    async def look(label: str) -> None:
        await asyncio.sleep(SETTLED_SECONDS)
        found = await world.client.list(CLUSTER_ROLE, label_selector=f"in={mine}")
        data = {
            name_of(one).removeprefix(f"{mine}-"): json.dumps(one.get("rules"), sort_keys=True) for one in found.items
        }
        await world.create(CONFIG_MAP, label.replace(" ", "-"), {}, annotations=data)

    await create("b", rule("b"), rule("both"), one="")
    await create("a", rule("a", verb="list"), rule("both"), one="", two="")
    await create("all", rule("by-hand"), selectors=["two", "one"])
    await create("above", selectors=["none", "up"])
    await create("itself", rule("by-hand"), selectors=["self"], self="")
    await create("left", rule("c"), selectors=["nothing"], up="")
    await create("right", rule("d"), up="")
    await look("begun")
    await change("b", {"rules": [rule("b", verb="watch")]})
    await create("aa", rule("aa"), rule("aa"), one="")
    await look("changed and added")
    await change("a", {"metadata": {"labels": {"to-one": None, "to-two": None}}})
    await change("all", {"metadata": {"labels": {"to-up": "yes"}}})
    await look("marked otherwise")
    await change("all", {"rules": [rule("by-hand")]})
    await look("mended")
    await change("all", {"aggregationRule": None})
    await world.client.delete(CLUSTER_ROLE, f"{mine}-b")
    await change("above", {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"in": "nowhere"}}]}})
    await look("over")
    # Two that collect each other, and what one of them has comes to both.
    await create("ping", selectors=["ping"], pong="")
    await create("pong", selectors=["pong"], ping="")
    await create("ball", rule("ball"), ping="")
    await look("round")
    await world.client.delete(CLUSTER_ROLE, f"{mine}-ball")
    await look("still round")
    await note("all that was seen")
    for one in (await world.client.list(CLUSTER_ROLE, label_selector=f"in={mine}")).items:
        await world.client.delete(CLUSTER_ROLE, name_of(one))


async def pod_is_tracked_by_no_job(world: World, note: Note) -> None:
    pod = {"containers": [CONTAINER], "terminationGracePeriodSeconds": 1}
    await world.create(POD, "lone", pod, finalizers=["batch.kubernetes.io/job-tracking", "example.com/own"])
    await world.until(POD, "lone", lambda found: found["metadata"]["finalizers"] == ["example.com/own"])
    await note("released")
    await world.client.patch(POD, "lone", world.namespace, {"metadata": {"finalizers": None}})
