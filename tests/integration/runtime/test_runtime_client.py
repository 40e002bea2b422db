# SPDX-License-Identifier: Apache-2.0
"""The verbs of the client on a real API server."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trainwright.api.base import Resource
from trainwright.api.kubernetes.core.v1 import ConfigMap, Pod, Service
from trainwright.api.kubernetes.meta.v1 import ObjectMeta
from trainwright.api.objects import managed_fields_of
from trainwright.controller.runtime import (
    Client,
    ClusterConfig,
    Conflict,
    HTTPTransport,
    MetadataOnly,
    NotFound,
    load_config,
)
from trainwright.controller.runtime.errors import (
    AlreadyExists,
    Forbidden,
    Gone,
    Invalid,
    Unauthorized,
    Unreachable,
)
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.objects import config_map

DEPLOYMENT = Resource(group="apps", version="v1", kind="Deployment", plural="deployments", namespaced=True)


def made(name: str, namespace: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data=data or None)


async def test_create_read_change_delete(client: Client, namespace: str) -> None:
    created = await client.create(made("a", namespace, k="v"))
    assert created.metadata is not None
    assert created.metadata.uid
    with pytest.raises(AlreadyExists):
        await client.create(made("a", namespace))
    read = await client.get(ConfigMap, "a", namespace)
    assert read == created
    patched = await client.patch(ConfigMap, "a", namespace, {"data": {"k": None, "l": "w"}})
    assert patched.data == {"l": "w"}
    operations = [{"op": "test", "path": "/data/l", "value": "w"}, {"op": "replace", "path": "/data/l", "value": "x"}]
    assert (await client.patch(ConfigMap, "a", namespace, operations, type="json")).data == {"l": "x"}
    with pytest.raises(Conflict, match="the object has been modified"):
        await client.update(created)
    with pytest.raises(Conflict):
        await client.delete(ConfigMap, "a", namespace, uid="00000000-0000-0000-0000-000000000000")
    assert await client.delete(ConfigMap, "a", namespace, uid=created.metadata.uid) is None
    with pytest.raises(NotFound):
        await client.get(ConfigMap, "a", namespace)


async def test_plain_dictionaries_and_metadata(client: Client, namespace: str) -> None:
    resource = ConfigMap.RESOURCE
    await client.create(config_map("a", namespace, data={"k": "v"}), kind=resource)
    read = await client.get(resource, "a", namespace)
    assert (read["kind"], read["data"]) == ("ConfigMap", {"k": "v"})
    partial = await client.get(MetadataOnly(ConfigMap), "a", namespace)
    assert (partial.kind, partial.name) == ("ConfigMap", "a")
    patch = {"metadata": {"labels": {"x": "y"}}}
    partial = await client.patch(MetadataOnly(ConfigMap), "a", namespace, patch)
    assert partial.metadata is not None
    assert partial.metadata.labels == {"x": "y"}
    listed = await client.list(MetadataOnly(resource), namespace, label_selector="x=y")
    assert [o.name for o in listed.items] == ["a"]


async def test_applies_conflict_unless_forced_and_give_up_fields(client: Client, namespace: str) -> None:
    await client.apply(made("a", namespace, f="x", g="x"), field_manager="x")
    with pytest.raises(Conflict) as caught:
        await client.apply(made("a", namespace, f="y"), field_manager="y")
    assert [(c.reason, c.field) for c in caught.value.causes] == [("FieldManagerConflict", ".data.f")]
    taken = await client.apply(made("a", namespace, f="y"), field_manager="y", force=True)
    assert managed_fields_of(taken, "x") == {"f:data": {"f:g": {}}}
    left = await client.apply(made("a", namespace), field_manager="x")
    assert left.data == {"f": "y"}


async def test_an_apply_with_a_uid_never_makes_or_changes_another_object(client: Client, namespace: str) -> None:
    """What the applier relies on between its look at the cache and its write."""
    other = "00000000-0000-0000-0000-000000000000"
    stale = ConfigMap(metadata=ObjectMeta(name="a", namespace=namespace, uid=other), data={"k": "v"})
    with pytest.raises(Conflict):
        await client.apply(stale, field_manager="x", force=True)
    with pytest.raises(NotFound):
        await client.get(ConfigMap, "a", namespace)
    await client.create(made("a", namespace))
    with pytest.raises(Invalid) as caught:
        await client.apply(stale, field_manager="x", force=True)
    assert {cause.field for cause in caught.value.causes} == {"metadata.uid"}
    assert (await client.get(ConfigMap, "a", namespace)).data is None


async def test_dry_runs_store_nothing(client: Client, namespace: str) -> None:
    answered = await client.with_defaults(dry_run=True).create(made("a", namespace))
    assert answered.metadata is not None
    assert answered.metadata.uid
    with pytest.raises(NotFound):
        await client.get(ConfigMap, "a", namespace)


async def test_refusals_name_field_and_cause(client: Client, namespace: str) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": namespace}}
    with pytest.raises(Invalid) as caught:
        await client.create({**service, "spec": {"ports": [{"port": 99999}]}}, kind=Service.RESOURCE)
    assert "spec.ports[0].port" in [cause.field for cause in caught.value.causes]
    strict = client.with_defaults(field_validation="Strict")
    with pytest.raises(Exception, match="unknown field"):
        await strict.create({**service, "spec": {"prots": []}}, kind=Service.RESOURCE)


async def test_lists_come_in_pages(client: Client, namespace: str) -> None:
    for n in range(5):
        await client.create(made(f"m{n}", namespace))
    listed = await client.list(ConfigMap, namespace, limit=2)
    assert [o.name for o in listed.items] == [f"m{n}" for n in range(5)]
    assert listed.resource_version.isdigit()


async def test_watches_tell_what_happened_since_a_version(client: Client, namespace: str) -> None:
    start = (await client.list(ConfigMap, namespace)).resource_version
    await client.create(made("a", namespace))
    await client.delete(ConfigMap, "a", namespace)
    seen: list[str] = []
    async with client.watch(ConfigMap, namespace, resource_version=start, seconds=5) as batches:
        async for batch in batches:
            seen += [frame.type for frame in batch]
            if len(seen) == 2:
                break
    assert seen == ["ADDED", "DELETED"]


async def test_a_version_from_the_future_or_the_past_is_gone(client: Client, namespace: str) -> None:
    with pytest.raises(Gone):
        await client.list_page(
            ConfigMap, namespace, resource_version="999999999", resource_version_match="NotOlderThan"
        )


@pytest.mark.real_control_plane("Deployments")
async def test_scale_and_status(client: Client, namespace: str) -> None:
    pod = {"containers": [{"name": "c", "image": "i"}]}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod}
    document = {"metadata": {"name": "d", "namespace": namespace}, "spec": {**spec, "template": template}}
    await client.create(document, kind=DEPLOYMENT)
    assert await client.get_scale(DEPLOYMENT, "d", namespace) == 1
    await client.set_scale(DEPLOYMENT, "d", namespace, 3)
    assert await client.get_scale(DEPLOYMENT, "d", namespace) == 3
    status = {"metadata": {"name": "d", "namespace": namespace}, "status": {"replicas": 2}}
    answered = await client.apply(status, kind=DEPLOYMENT, field_manager="x", subresource="status")
    assert answered["status"]["replicas"] == 2
    patched = await client.patch(DEPLOYMENT, "d", namespace, {"status": {"replicas": 1}}, subresource="status")
    assert patched["status"]["replicas"] == 1
    merge = {"spec": {"template": {"spec": {"containers": [{"name": "d", "image": "j"}]}}}}
    merged = await client.patch(DEPLOYMENT, "d", namespace, merge, type="strategic")
    assert [c["name"] for c in merged["spec"]["template"]["spec"]["containers"]] == ["d", "c"]


async def test_a_pod_can_be_evicted_and_a_collection_deleted(client: Client, namespace: str) -> None:
    pod: dict[str, Any] = {
        "metadata": {"name": "p", "namespace": namespace},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    await client.create({**pod, "spec": {**pod["spec"], "terminationGracePeriodSeconds": 0}}, kind=Pod.RESOURCE)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": pod["metadata"]}
    answer = await client.post_subresource(Pod, "p", namespace, "eviction", eviction)
    assert answer["status"] == "Success"
    await client.create(made("a", namespace))
    await client.delete_collection(ConfigMap, namespace)
    assert (await client.list(ConfigMap, namespace)).items == []


async def test_finalizers_keep_what_was_deleted(client: Client, namespace: str) -> None:
    kept = ConfigMap(metadata=ObjectMeta(name="a", namespace=namespace, finalizers=["example.com/hold"]))
    await client.create(kept)
    left = await client.delete(ConfigMap, "a", namespace)
    assert isinstance(left, ConfigMap)
    assert left.metadata is not None
    assert left.metadata.deletion_timestamp
    await client.patch(ConfigMap, "a", namespace, {"metadata": {"finalizers": None}})
    with pytest.raises(NotFound):
        await client.get(ConfigMap, "a", namespace)


async def test_a_client_certificate_is_enough(control_plane: ControlPlane, namespace: str) -> None:
    config = load_config(control_plane.add_user("carol", groups=["system:masters"]))
    assert config.token is None
    client = Client(HTTPTransport(config))
    await client.create(made("a", namespace))
    await client.close()


async def test_who_may_not_is_told_what_is_missing(control_plane: ControlPlane, namespace: str) -> None:
    client = Client(HTTPTransport(load_config(control_plane.add_user("mallory", groups=[]))))
    with pytest.raises(Forbidden, match=r'"mallory" cannot list resource "configmaps"'):
        await client.list(ConfigMap, namespace)
    await client.close()


async def test_wrong_credentials_and_wrong_servers(config: ClusterConfig, tmp_path: Path) -> None:
    wrong = Client(HTTPTransport(replace(config, token="wrong")))
    with pytest.raises(Unauthorized):
        await wrong.list(ConfigMap)
    await wrong.close()
    token = tmp_path / "token"
    token.write_text("wrong")
    rotated = Client(HTTPTransport(replace(config, token=None, token_file=str(token))))
    with pytest.raises(Unauthorized):
        await rotated.get(ConfigMap, "kube-root-ca.crt", "default")
    token.write_text(config.token or "")
    with pytest.raises(NotFound):  # a 401 makes the file be read again
        await rotated.get(ConfigMap, "no-such", "default")
    await rotated.close()
    nobody = Client(HTTPTransport(replace(config, server="https://127.0.0.1:1")))
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
        await nobody.list(ConfigMap)
    await nobody.close()
    untrusted = Client(HTTPTransport(replace(config, ca_data=None, ca_file=None)))
    with pytest.raises(Unreachable, match="certificate"):
        await untrusted.list(ConfigMap)
    await untrusted.close()


async def test_the_name_in_the_certificate_may_be_another(config: ClusterConfig) -> None:
    for name, expected in (("kubernetes.default.svc", NotFound), ("wrong.example", Unreachable)):
        client = Client(HTTPTransport(replace(config, tls_server_name=name)))
        with pytest.raises(expected):
            await client.get(ConfigMap, "none", "default")
        await client.close()


async def test_a_rotated_authority_is_read_again(config: ClusterConfig, tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_bytes(config.ca_data or b"")
    transport = HTTPTransport(replace(config, ca_data=None, ca_file=str(authority)))
    client = Client(transport)
    before = transport._pools
    for _ in range(3):
        with pytest.raises(NotFound):
            await client.get(ConfigMap, "none", "default")
        authority.write_bytes((config.ca_data or b"") + authority.read_bytes())
        before = transport._pools
        transport._tls_checked = float("-inf")  # a minute has passed
    with pytest.raises(NotFound):
        await client.get(ConfigMap, "none", "default")
    assert transport._pools is not before
    await client.close()


async def test_a_proxy_is_used_where_the_kubeconfig_names_one(config: ClusterConfig) -> None:
    """An unreachable proxy is proof enough that it was asked."""
    client = Client(HTTPTransport(replace(config, proxy_url="http://127.0.0.1:1")))
    with pytest.raises(Unreachable, match=r" through the proxy 127\.0\.0\.1:1: Connection refused$"):
        await client.get(ConfigMap, "none", "default")
    await client.close()
