# SPDX-License-Identifier: Apache-2.0
"""A kind in three versions, converted by either of two replicas."""

import asyncio
from typing import Any, ClassVar

import pytest
from msgspec import field

from trainwright.api.base import Object, Resource
from trainwright.api.kubernetes.meta.v1 import ObjectMeta
from trainwright.controller.local.testing.cluster import LocalCluster
from trainwright.controller.runtime import NO_SERVERS, App, Client, Context, HTTPTransport, LeaderElector, load_config
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.runtime.testing.waiting import equals, eventually
from trainwright.controller.runtime.webhook.webhooks import SharedCertificates

FACTORS = {"v1": ("meters", 1), "v2": ("centimeters", 100), "v3": ("millimeters", 1000)}
GROUP = "sea.example.com"


class Mast(Object, kw_only=True):
    api_version: str | None = field(name="apiVersion", default=None)
    kind: str | None = None
    metadata: ObjectMeta | None = None
    spec: dict[str, int]


class V1(Mast, kw_only=True):
    RESOURCE: ClassVar[Resource] = Resource(group=GROUP, version="v1", kind="Mast", plural="masts", namespaced=True)


class V2(Mast, kw_only=True):
    RESOURCE: ClassVar[Resource] = Resource(group=GROUP, version="v2", kind="Mast", plural="masts", namespaced=True)


class V3(Mast, kw_only=True):
    RESOURCE: ClassVar[Resource] = Resource(group=GROUP, version="v3", kind="Mast", plural="masts", namespaced=True)


def definition(url: str) -> dict[str, Any]:
    versions = [
        {
            "name": name,
            "served": True,
            "storage": name == "v2",
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": {"type": "object", "properties": {unit: {"type": "integer"}}}},
                }
            },
        }
        for name, (unit, _) in FACTORS.items()
    ]
    webhook = {"clientConfig": {"url": f"{url}/convert"}, "conversionReviewVersions": ["v1"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"masts.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": "Mast", "plural": "masts", "singular": "mast", "listKind": "MastList"},
            "versions": versions,
            "conversion": {"strategy": "Webhook", "webhook": webhook},
        },
    }


def operator(seen: list[str]) -> App:
    app = App("masts")

    def declare(source: Any, target: Any) -> None:
        (have, by), (want, times) = FACTORS[source.RESOURCE.version], FACTORS[target.RESOURCE.version]

        @app.converts(source, target)
        def convert(mast: Mast) -> Mast:
            made: Mast = target(metadata=mast.metadata, spec={want: mast.spec[have] * times // by})
            return made

    for pair in ((V1, V2), (V2, V1), (V2, V3), (V3, V2)):  # between v1 and v3 there is a way of two steps
        declare(*pair)

    @app.reconciles(V3)
    async def masts(mast: V3, ctx: Context) -> None:
        seen.append(f"{mast.name} {mast.spec['millimeters']}")

    return app


@pytest.mark.local_cluster(rbac=False)
async def test_either_of_two_replicas_converts_three_versions_with_one_certificate(local_cluster: LocalCluster) -> None:
    ports = [free_port(), free_port()]
    local_cluster.apply(definition(f"https://127.0.0.1:{ports[0]}"))
    config = load_config(local_cluster.kubeconfig)
    shared = SharedCertificates(secret="masts", namespace="default", hosts=["127.0.0.1"])
    seen: list[str] = []
    managers = [
        operator(seen).manager(
            config,
            servers=NO_SERVERS,
            elector=LeaderElector(config, "masts"),
            webhooks=shared,
            webhook_address=f"127.0.0.1:{port}",
        )
        for port in ports
    ]
    client = Client(HTTPTransport(config))

    async def told(kind: Any) -> Any:
        return (await client.get(kind, "main", "default")).spec

    running = [asyncio.create_task(one.run()) for one in managers]
    try:
        for one in managers:
            await eventually(one.readyz.run, lambda checks: all(checks.values()), seconds=60)
        await client.create(V1(metadata=ObjectMeta(name="main", namespace="default"), spec={"meters": 12}))
        assert await told(V3) == {"millimeters": 12000}
        # The other one converts now: what it serves with is signed by the authority that the definition trusts already.
        local_cluster.apply(definition(f"https://127.0.0.1:{ports[1]}"))
        managers[0].stop()
        await running[0]
        await eventually(lambda: told(V3), equals({"millimeters": 12000}), ignore=(Exception,))
        assert await told(V2) == {"centimeters": 1200}
        assert await told(V1) == {"meters": 12}
        await eventually(lambda: managers[1].leads and seen[-1:], equals(["main 12000"]))
    finally:
        for one in managers:
            one.stop()
        await asyncio.gather(*running, return_exceptions=True)
        await client.close()
