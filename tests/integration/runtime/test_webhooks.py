# SPDX-License-Identifier: Apache-2.0
"""Webhooks called by a real API server: by URL, with shared certificates, and during a rotation."""

import asyncio
import base64
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from prometheus_client import CollectorRegistry

from tests.integration.runtime.admissions import (
    MUTATING,
    QUICK_ROTATION,
    VALIDATING,
    Trainings,
    asked,
    config_map,
    configuration,
    create,
    created,
    existing,
    hooks,
    installed,
    keeper_of,
    reachable,
    refuses,
    serving,
)
from tests.integration.runtime.conftest import quiet_manager
from trainwright.api.kubernetes.admissionregistration.v1 import (
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from trainwright.api.kubernetes.core.v1 import ConfigMap, Secret
from trainwright.api.objects import Document, resource_version_of
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Client, ClusterConfig, load_config
from trainwright.controller.runtime.certificates.rotation import RotationPolicy
from trainwright.controller.runtime.client.http import HTTPTransport
from trainwright.controller.runtime.errors import BadRequest, Forbidden, NotControlled, NotFound
from trainwright.controller.runtime.manager.supervisor import Group
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.runtime.testing.waiting import at_least, eventually
from trainwright.controller.runtime.webhook.admission import (
    AdmissionRequest,
    AdmissionResponse,
    mutate_path,
    validate_path,
)
from trainwright.controller.runtime.webhook.webhooks import ByURL, SharedCertificates, Webhooks

# ---------------------------------------------------------------------- by URL


async def test_by_url_registered_asked_and_removed(
    client: Client, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()
    documents = installed(namespace)
    webhooks = hooks(client, documents, ByURL(url=f"https://127.0.0.1:{port}"), port)
    async with serving(webhooks):
        await asked(client, namespace, lambda made: made.get("data"))
        await refuses(client, namespace)
        stored = await create(client, config_map(namespace, "good", a="b"))
        assert stored["data"] == {"added": "yes", "a": "b"}
        assert "100%s of this is %d checked" in caplog.text, "warnings reach the user, in one line"
        with pytest.raises(Forbidden) as refused:
            await create(client, config_map(namespace, "worse", bad1="x", bad2="y"))
        assert "[data.bad1: must not be bad, data.bad2: must not be bad]" in refused.value.message
        assert [cause.field for cause in refused.value.causes] == ["data.bad1", "data.bad2"]
    for kind in (ValidatingWebhookConfiguration, MutatingWebhookConfiguration):
        assert not [c for c in (await client.list(kind)).items if namespace in c.name]
    assert (await created(client, config_map(namespace, "worse", bad="x")))["data"] == {"bad": "x"}


@pytest.mark.real_control_plane("webhooks behind Services")
async def test_what_a_killed_process_left_is_taken_over_and_an_installation_is_not(
    client: Client, namespace: str
) -> None:
    port = free_port()
    documents = installed(namespace)
    own = ByURL(url=f"https://127.0.0.1:{port}")
    left = hooks(client, documents, own, port)
    registration = left._registration
    assert registration is not None
    await registration.register(left._make_own())  # and nobody serves it
    async with serving(hooks(client, documents, own, port)):
        await asked(client, namespace, lambda made: made.get("data"))

    for document in documents:
        document["webhooks"][0]["failurePolicy"] = "Ignore"
        kind = VALIDATING if document["kind"] == VALIDATING.kind else MUTATING
        await client.create(document, kind=kind)
    with pytest.raises(NotControlled, match="remove the installation"):
        await hooks(client, documents, own, port).run()
    kept = await client.get(ValidatingWebhookConfiguration, documents[0]["metadata"]["name"])
    assert kept.webhooks is not None
    assert kept.webhooks[0].client_config.service is not None
    for document in documents:
        kind = VALIDATING if document["kind"] == VALIDATING.kind else MUTATING
        await client.delete(kind, document["metadata"]["name"])


async def test_by_url_in_a_manager_is_removed_before_it_ends(config: ClusterConfig, namespace: str) -> None:
    port = free_port()
    manager = quiet_manager(config)
    webhooks = hooks(manager.client, installed(namespace), ByURL(url=f"https://127.0.0.1:{port}"), port)
    manager.add(webhooks, Group.WEBHOOKS, "webhooks")
    manager.readyz.add("webhooks", webhooks.unready)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(manager.run())
        await reachable(webhooks)
        assert await manager.readyz.run(only="webhooks") == {"webhooks": True}
        assert (await manager.client.get(VALIDATING, f"valid-{namespace}"))["webhooks"]
        manager.stop()
        await running
    after = Client(HTTPTransport(config))
    try:
        with pytest.raises(NotFound):
            await after.get(VALIDATING, f"valid-{namespace}")
    finally:
        await after.close()


# ---------------------------------------------------------------------- shared by replicas


async def test_two_replicas_started_at_once_end_with_one_authority(client: Client, namespace: str) -> None:
    ports = free_port(), free_port()
    urls = [{"url": f"https://127.0.0.1:{port}{validate_path(ConfigMap)}"} for port in ports]
    shared = SharedCertificates(secret="cert", namespace=namespace, hosts=["127.0.0.1"])
    async with existing(client, configuration(VALIDATING.kind, namespace, *urls)) as document:
        one, two = (hooks(client, [document], shared, port) for port in ports)
        async with serving(one, two):
            assert one.serving.fingerprint == two.serving.fingerprint
            assert keeper_of(one).statistics.writes + keeper_of(two).statistics.writes == 1
            held = await client.get(ValidatingWebhookConfiguration, document["metadata"]["name"])
            secret = await client.get(Secret, "cert", namespace)
            assert secret.data is not None
            assert base64.b64decode(secret.data["ca.crt"]).count(b"BEGIN CERTIFICATE") == 1
            assert {hook.client_config.ca_bundle for hook in held.webhooks or ()} == {secret.data["ca.crt"]}
            await create(client, config_map(namespace, "seen-by-both"))

            # Nothing to do: nothing is written, by a third replica either.
            async with serving(hooks(client, [document], shared, free_port())):
                pass
            for kind, name, where in ((Secret, "cert", namespace), (type(held), document["metadata"]["name"], "")):
                now: Any = await client.get(kind, name, where)
                assert resource_version_of(now) == resource_version_of(secret if kind is Secret else held)

            # Somebody applies a manifest without the bundle: it is put back.
            index = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
            await client.patch(VALIDATING, document["metadata"]["name"], "", index, type="json")
            written = keeper_of(one).statistics, keeper_of(two).statistics
            await eventually(lambda: sum(s.injections for s in written), at_least(2), what="the bundle is put back")
            await created(client, config_map(namespace, "seen-again"))


async def test_deleted_secret_is_made_anew_and_no_request_fails(client: Client, namespace: str) -> None:
    port = free_port()
    policy = RotationPolicy(overlap=timedelta(seconds=1))
    shared = SharedCertificates(secret="cert", namespace=namespace, hosts=["127.0.0.1"], policy=policy)
    url = {"url": f"https://127.0.0.1:{port}{validate_path(ConfigMap)}"}
    async with existing(client, configuration(VALIDATING.kind, namespace, url)) as document:
        one = hooks(client, [document], shared, port)
        async with serving(one):
            await asked(client, namespace, bool)
            material = keeper_of(one).material
            assert material is not None
            before = material.signing.certificate
            await client.delete(Secret, "cert", namespace)
            async with asyncio.timeout(60):
                while before in (material := keeper_of(one).material or material).trusted:
                    await create(client, config_map(namespace, "r"), dry_run=True)  # raises if one fails
            assert material.leaf.certificate.issuer == material.signing.certificate.subject
            one._reach._looked_at = float("-inf")
            await reachable(one)


async def test_rotation_under_constant_admission_fails_no_request(client: Client, namespace: str) -> None:
    """The authority is replaced every few seconds on two replicas, while requests pass through both.

    Clients that know the authorities of their start only, as training does, connect to both all the time.
    """
    trainings = Trainings()
    ports = free_port(), free_port()
    urls = [{"url": f"https://127.0.0.1:{port}{validate_path(ConfigMap)}"} for port in ports]
    shared = SharedCertificates(secret="cert", namespace=namespace, hosts=["127.0.0.1"], policy=QUICK_ROTATION)
    async with existing(client, configuration(VALIDATING.kind, namespace, *urls)) as document:
        one, two = (hooks(client, [document], shared, port) for port in ports)
        async with serving(one, two):
            await asked(client, namespace, bool)
            authorities: set[bytes] = set()
            served: set[str] = set()
            requests = 0

            async def ask() -> None:
                nonlocal requests
                while len(authorities) < 4:
                    await create(client, config_map(namespace, f"r-{requests}"), dry_run=True)  # raises if one fails
                    requests += 1
                    await asyncio.sleep(0.05)  # the requests are to pass all the time, not to keep the machine busy
                    for replica in (one, two):
                        served.add(replica.serving.fingerprint)
                        if (material := keeper_of(replica).material) is not None:
                            authorities.add(material.signing.certificate.public_bytes(Encoding.PEM))

            async def train() -> None:
                while len(authorities) < 4:
                    if (material := keeper_of(one).material) is not None:
                        trainings.start(material.bundle)
                    await trainings.connect(*ports)  # raises if one fails
                    await asyncio.sleep(0.05)

            async with asyncio.timeout(120), asyncio.TaskGroup() as group:
                for _ in range(4):
                    group.create_task(ask())
                group.create_task(train())
            material = keeper_of(one).material
            assert material is not None
            trainings.start(material.bundle)
            assert await trainings.connect(*ports) >= 4, "of the first authority and of the last, to two servers"
            assert len(served) >= 4
            assert requests > 50
            writes = keeper_of(one).statistics.writes + keeper_of(two).statistics.writes
            assert writes >= 7, "announced and switched three times"


async def test_nothing_is_rotated_while_a_configuration_cannot_be_made_right(
    control_plane: ControlPlane, client: Client, namespace: str
) -> None:
    """A replica that may write the Secret but not the configuration serves, says so, and rotates nothing."""
    secrets = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}
    rights = control_plane.add_user(f"user-{namespace}", rules=[secrets], namespace=namespace)
    limited = Client(HTTPTransport(load_config(rights)))
    at_once = RotationPolicy(
        authority_lifetime=timedelta(hours=1),
        authority_renewal=timedelta(minutes=59, seconds=59),
        lifetime=timedelta(minutes=30),
        renewal=timedelta(minutes=15),
        overlap=timedelta(seconds=1),
    )
    port = free_port()
    url = {"url": f"https://127.0.0.1:{port}{validate_path(ConfigMap)}"}
    async with existing(client, configuration(VALIDATING.kind, namespace, url)) as document:
        shared = SharedCertificates(secret="cert", namespace=namespace, hosts=["127.0.0.1"], policy=at_once)
        one = hooks(limited, [document], shared, port)
        keeper = keeper_of(one)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(one.run())
            await eventually(lambda: keeper.statistics, lambda found: found.passes >= 3, what="three passes")
            assert one.server.listening.is_set(), "something is served all the same"
            assert "is forbidden" in keeper.statistics.last_error
            assert "is forbidden" in (await one.unready() or "")
            assert keeper.statistics.writes == 1, "the first certificate, and no step after it"
            task.cancel()
    await limited.close()


# ---------------------------------------------------------------------- what does not fit its model


def unfit(namespace: str, name: str, time: Any) -> Document:
    """kube-apiserver checks the format of a string, and takes any array in its place."""
    spec = {"runtimeRef": {"name": "r"}, "runtimePatches": [{"manager": "m", "time": time}]}
    return {"metadata": {"name": name, "namespace": namespace, "finalizers": ["example.com/f"]}, "spec": spec}


async def test_what_does_not_fit_is_refused_and_what_is_stored_can_be_mended_and_deleted(
    client: Client, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    job, port = TrainJob.RESOURCE, free_port()
    for name in ("old", "other"):
        await client.create(unfit(namespace, name, [0]), kind=job)
    paths = {MUTATING: mutate_path(TrainJob), VALIDATING: validate_path(TrainJob)}
    documents = [
        configuration(kind.kind, namespace, {"service": {"path": path}}, asked_for=job) for kind, path in paths.items()
    ]
    seen: list[TrainJob | None] = []

    def check(request: AdmissionRequest[TrainJob]) -> AdmissionResponse | None:
        seen.append(request.old)
        return None

    own = ByURL(url=f"https://127.0.0.1:{port}")
    one = Webhooks(client, CollectorRegistry(), f"127.0.0.1:{port}", configurations=documents, certificates=own)
    one.server.mutate(TrainJob, lambda _: None)
    one.server.validate(TrainJob, check)
    async with serving(one):

        async def ask() -> list[TrainJob | None]:
            await client.create(unfit(namespace, "probe", None), kind=job, dry_run=True)
            return seen

        await eventually(ask, what="the API server asks the webhook")
        with pytest.raises(BadRequest, match=r"\$\.spec\.runtimePatches\[0\]\.time"):
            await client.create(unfit(namespace, "new", [0]), kind=job)
        with pytest.raises(BadRequest, match=r"\$\.spec\.runtimePatches\[0\]\.time"):
            await client.patch(job, "old", namespace, {"spec": {"suspend": True}})
        await client.patch(job, "old", namespace, {"metadata": {"labels": {"a": "b"}}})
        assert "allowed without a check, because the stored object cannot be decoded" in caplog.text
        seen.clear()
        await client.patch(job, "old", namespace, {"spec": unfit(namespace, "old", "2026-01-01T00:00:00Z")["spec"]})
        # The API server asks twice where its cache is behind the write before.
        assert seen
        assert all(old is None for old in seen), "the function sees the new object, and of the old one nothing is known"
        await client.delete(job, "other", namespace)
        await client.patch(job, "other", namespace, {"metadata": {"finalizers": None}})
        with pytest.raises(NotFound):
            await client.get(job, "other", namespace)
        await client.patch(job, "old", namespace, {"metadata": {"finalizers": None}})
