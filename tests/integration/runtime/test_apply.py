# SPDX-License-Identifier: Apache-2.0
"""Apply on a real API server: it writes only differences, gives up fields, and changes nothing of others."""

from typing import Any

import pytest

from tests import builders
from tests.integration.runtime.conftest import quiet_manager, running
from trainwright.api.kubernetes.core.v1 import ConfigMap, Service
from trainwright.api.kubernetes.meta.v1 import ObjectMeta
from trainwright.api.objects import Document, controller_of, owners_of, resource_version_of, wire
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import ClusterConfig, Conflict, Manager, MetadataOnly
from trainwright.controller.runtime.apply.applier import Action
from trainwright.controller.runtime.errors import ConfigurationError, NotControlled
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.objects import build
from trainwright.controller.runtime.testing.settle import settle_manager
from trainwright.controller.runtime.testing.waiting import eventually, is_empty


def declared(config: ClusterConfig, *kinds: object) -> Manager:
    manager = quiet_manager(config)
    for kind in kinds or (ConfigMap, Service):
        manager.cache.informer(kind)  # type: ignore[arg-type]
    return manager


def made(name: str, namespace: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data=data or None)


def service(namespace: str, *ports: dict[str, object], **spec: object) -> dict[str, object]:
    return build(Service.RESOURCE, "s", namespace, spec={"ports": list(ports), **spec})


async def test_writes_once_then_only_what_differs(config: ClusterConfig, namespace: str) -> None:
    async with running(declared(config)) as m:
        ports = ({"name": "http", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"})
        first = await m.applier.apply([service(namespace, *ports, selector={"a": "b"})])
        again = await m.applier.apply([service(namespace, *ports, selector={"a": "b"})])
        assert [a.action for a in (*first, *again)] == [Action.CREATED, Action.UNCHANGED]
        fewer = await m.applier.apply([service(namespace, ports[0])])
        assert fewer[0].action is Action.CHANGED
        live = await m.client.get(Service, "s", namespace)
        assert live.spec is not None
        assert [p.port for p in live.spec.ports or ()] == [80]
        assert live.spec.selector is None


async def test_a_fresh_process_finds_nothing_to_do(config: ClusterConfig, namespace: str) -> None:
    wanted = service(namespace, {"name": "http", "port": 80}, selector={"a": "b"}, type="ClusterIP")
    async with running(declared(config)) as m:
        await m.applier.apply([wanted, made("a", namespace, k="v")])
        await settle_manager(m)
    async with running(declared(config)) as m:
        results = await m.applier.apply([wanted, made("a", namespace, k="v")])
        assert [a.action for a in results] == [Action.UNCHANGED] * 2
        assert m.applier.memory.answered("x", "", {}, {}, {}) is False


async def test_a_value_that_others_changed_and_changed_back_is_owned_again(
    config: ClusterConfig, namespace: str, control_plane: ControlPlane
) -> None:
    wanted = [made("a", namespace, k="v")]
    async with running(declared(config)) as m:
        await m.applier.apply(wanted)
        for value in ("other", "v"):
            control_plane.stored.patch("configmap", "a", {"data": {"k": value}}, namespace)
        await settle_manager(m)
        for action in (Action.CHANGED, Action.UNCHANGED):
            assert (await m.applier.apply(wanted))[0].action is action


async def test_a_foreign_field_stays_and_a_foreign_edit_of_ours_goes(
    config: ClusterConfig, namespace: str, control_plane: ControlPlane
) -> None:
    async with running(declared(config)) as m:
        await m.applier.apply([made("a", namespace, k="v")])
        control_plane.stored.patch("configmap", "a", {"data": {"k": "other", "l": "theirs"}}, namespace)
        await settle_manager(m)
        results = await m.applier.apply([made("a", namespace, k="v")])
        assert results[0].action is Action.CHANGED
        assert (await m.client.get(ConfigMap, "a", namespace)).data == {"k": "v", "l": "theirs"}
        assert (await m.applier.apply([made("a", namespace, k="v")]))[0].action is Action.UNCHANGED


async def test_values_that_the_server_rewrites_are_written_once(config: ClusterConfig, namespace: str) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": namespace},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1000m"}}}]},
    }
    from trainwright.api.kubernetes.core.v1 import Pod  # noqa: PLC0415

    async with running(declared(config, Pod)) as m:
        results = [(await m.applier.apply([pod]))[0].action for _ in range(3)]
        assert results == [Action.CREATED, Action.UNCHANGED, Action.UNCHANGED]
        await settle_manager(m)
    async with running(declared(config, Pod)) as m:
        before = resource_version_of(await m.client.get(Pod, "p", namespace))
        await m.applier.apply([pod])
        assert resource_version_of(await m.client.get(Pod, "p", namespace)) == before


async def test_children_belong_to_their_owner_and_are_pruned(config: ClusterConfig, namespace: str) -> None:
    async with running(declared(config)) as m:
        owner = (await m.applier.apply([made("owner", namespace)]))[0].obj
        children = [made("a", namespace), made("b", namespace)]
        await m.applier.apply(children, owner=owner)
        live = await m.client.get(ConfigMap, "a", namespace)
        reference = controller_of(live)
        assert reference is not None
        assert (reference.kind, reference.name) == ("ConfigMap", "owner")
        results = await m.applier.apply(children[:1], owner=owner, prune=[ConfigMap])
        assert [(r.action, r.key.name) for r in results] == [(Action.UNCHANGED, "a"), (Action.DELETED, "b")]
        assert m.cache.get(ConfigMap, "b", namespace) is None
        with pytest.raises(ConfigurationError, match="and its owner in"):
            await m.applier.apply([made("a", "default")], owner=owner)
        with pytest.raises(ConfigurationError, match="has no uid"):
            await m.applier.apply(children, owner=made("nobody", namespace))


async def test_an_object_of_somebody_else_is_left_alone(config: ClusterConfig, namespace: str) -> None:
    async with running(declared(config)) as m:
        mine, theirs = [r.obj for r in await m.applier.apply([made("mine", namespace), made("theirs", namespace)])]
        await m.applier.apply([made("child", namespace, k="theirs")], owner=theirs)
        with pytest.raises(NotControlled, match="controlled by ConfigMap theirs"):
            await m.applier.apply([made("child", namespace, k="mine")], owner=mine)
        with pytest.raises(NotControlled, match="controlled by ConfigMap theirs"):
            await m.applier.apply([made("child", namespace, k="mine")])
        await m.applier.apply([made("lone", namespace, k="v")])
        with pytest.raises(NotControlled, match="exists without a controller"):
            await m.applier.apply([made("lone", namespace, k="v")], owner=mine)
        adopted = await m.applier.apply([made("lone", namespace, k="v")], owner=mine, adopt=True)
        assert len(owners_of(adopted[0].obj)) == 1
        assert (await m.client.get(ConfigMap, "child", namespace)).data == {"k": "theirs"}


async def test_an_object_that_the_cache_does_not_show_is_left_alone_too(config: ClusterConfig, namespace: str) -> None:
    """A cache limited by a selector, or one that lags: the first write creates, so the server refuses it."""
    manager = quiet_manager(config)
    manager.cache.informer(ConfigMap, label_selector="mine=yes")
    async with running(manager) as m:
        other = await m.client.with_defaults(field_manager="other").create(made("a", namespace, k="theirs"))
        owner = await m.client.create(made("owner", namespace))
        with pytest.raises(NotControlled, match="exists without a controller"):
            await m.applier.apply([made("a", namespace, k="mine")], owner=owner)
        await m.client.with_defaults(field_manager="other").apply(
            {
                "metadata": {
                    "name": "b",
                    "namespace": namespace,
                    "ownerReferences": [
                        {
                            "apiVersion": "v1",
                            "kind": "ConfigMap",
                            "name": "a",
                            "uid": other.metadata.uid if other.metadata else "",
                            "controller": True,
                        }
                    ],
                }
            },
            kind=ConfigMap.RESOURCE,
        )
        with pytest.raises(NotControlled, match="controlled by ConfigMap a"):
            await m.applier.apply([made("b", namespace, k="mine")], owner=owner)
        assert (await m.client.get(ConfigMap, "b", namespace)).data is None
        empty = await m.client.create(made("empty", namespace))
        with pytest.raises(NotControlled, match="empty exists without a controller"):
            await m.applier.apply([made("empty", namespace, k="mine")], owner=owner)
        assert resource_version_of(await m.client.get(ConfigMap, "empty", namespace)) == resource_version_of(empty)
        adopted = await m.applier.apply([made("empty", namespace, k="mine")], owner=owner, adopt=True)
        assert len(owners_of(adopted[0].obj)) == 1
        # Our own object, whose answer was lost: it is read, and it is as wanted.
        await m.applier.apply([made("own", namespace, k="v")], owner=owner)
        assert len(owners_of((await m.applier.apply([made("own", namespace, k="w")], owner=owner))[0].obj)) == 1


async def test_another_object_under_the_same_name_is_a_conflict(
    config: ClusterConfig, namespace: str, control_plane: ControlPlane
) -> None:
    async with running(declared(config)) as m:
        before = (await m.applier.apply([made("a", namespace, k="v")]))[0].obj
        outside = m.client.with_defaults(field_manager="kubectl")
        control_plane.stored.delete("configmap", "a", namespace)
        await eventually(lambda: m.cache.get(ConfigMap, "a", namespace), is_empty)
        with pytest.raises(Conflict):
            await m.applier._send(ConfigMap, {"metadata": {"name": "a", "namespace": namespace}}, before)
        await outside.create(made("a", namespace, k="theirs"))
        with pytest.raises(Conflict, match="replaced by another one of the same name"):
            await m.applier._send(ConfigMap, {"metadata": {"name": "a", "namespace": namespace}}, before)


async def test_content_is_read_once_where_only_metadata_is_cached(
    config: ClusterConfig, namespace: str, control_plane: ControlPlane
) -> None:
    manager = quiet_manager(config, user_agent="content-once")
    manager.cache.informer(MetadataOnly(ConfigMap))
    async with running(manager) as m:
        assert (await m.applier.apply([made("a", namespace, k="v")]))[0].action is Action.CREATED
        assert (await m.applier.apply([made("a", namespace, k="v")]))[0].action is Action.UNCHANGED
        control_plane.stored.patch("configmap", "a", {"data": {"k": "other"}}, namespace)
        await settle_manager(m)
        assert (await m.applier.apply([made("a", namespace, k="v")]))[0].action is Action.CHANGED
        assert (await m.applier.apply([made("a", namespace, k="v")]))[0].action is Action.UNCHANGED

    def verbs() -> list[str]:
        return [c.verb for c in control_plane.audit_log.calls() if c.user_agent.endswith(" content-once")]

    await eventually(verbs, lambda seen: seen.count("patch") == 2)
    assert verbs().count("get") == 1


async def test_status_is_written_only_when_it_differs(config: ClusterConfig, namespace: str) -> None:
    async with running(declared(config)) as m:
        await m.applier.apply([service(namespace, {"port": 80})])
        condition = {
            "type": "Ready",
            "status": "True",
            "reason": "Up",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        wanted = {**service(namespace), "status": {"conditions": [condition]}}
        first, second = await m.applier.apply_status(wanted), await m.applier.apply_status(wanted)
        assert (first.action, second.action) == (Action.CHANGED, Action.UNCHANGED)
        live = await m.client.get(Service, "s", namespace)
        assert live.status is not None
        assert [c.type for c in live.status.conditions or ()] == ["Ready"]
        gone = await m.applier.apply_status({**service(namespace), "status": {}})
        assert gone.action is Action.CHANGED
        assert not (await m.client.get(Service, "s", namespace)).status.conditions  # type: ignore[union-attr]


def train_job(namespace: str, **spec: Any) -> Document:
    return wire(builders.train_job("emptied", namespace, uid="", suspend=True, **spec))


async def test_what_is_emptied_is_empty_and_not_refused(config: ClusterConfig, namespace: str) -> None:
    """The API server makes a field null when the last member that an apply owns goes, and refuses null for most."""
    filled = train_job(
        namespace,
        trainer={"env": [{"name": "A", "value": "1"}], "resourcesPerNode": {"limits": {"cpu": "1"}}},
    )
    emptied = train_job(namespace, trainer={"env": [], "resourcesPerNode": {"limits": {}}})
    async with running(declared(config, TrainJob.RESOURCE)) as m:
        await m.applier.apply([filled])
        [result] = await m.applier.apply([emptied])
        live = await m.client.get(TrainJob.RESOURCE, "emptied", namespace)
        assert live["spec"]["trainer"] == {"env": [], "resourcesPerNode": {"limits": {}}}
        assert result.action is Action.CHANGED
        await settle_manager(m)
        assert (await m.applier.apply([emptied]))[0].action is Action.UNCHANGED
    async with running(declared(config, TrainJob.RESOURCE)) as m:
        assert (await m.applier.apply([emptied]))[0].action is Action.UNCHANGED
