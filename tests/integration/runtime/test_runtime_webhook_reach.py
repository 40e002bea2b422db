# SPDX-License-Identifier: Apache-2.0
"""Readiness of webhooks: whether the API server can call them with their CA bundle; and files that change."""

import asyncio
import base64
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.integration.runtime.admissions import (
    VALIDATING,
    config_map,
    configuration,
    create,
    existing,
    hooks,
    reachable,
    serving,
)
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.objects import Document
from trainwright.controller.runtime import Client, load_config
from trainwright.controller.runtime.client.http import HTTPTransport
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.runtime.testing.programs import Authority
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.controller.runtime.webhook.admission import validate_path
from trainwright.controller.runtime.webhook.reach import dry_run_proof
from trainwright.controller.runtime.webhook.webhooks import ByURL, CertificateFolder, SharedCertificates, Webhooks


def validating(namespace: str, port: int, **more: str) -> Document:
    """A configuration whose one webhook leads to a port of this machine."""
    client = {"url": f"https://127.0.0.1:{port}{validate_path(ConfigMap)}", **more}
    return configuration(VALIDATING.kind, namespace, client)


def encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


class Mount:
    """Certificate files as the kubelet mounts a Secret: links into a folder that is replaced in one step."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder / "authority")
        self.folder = folder / "mounted"
        self.folder.mkdir()
        for name in ("tls.crt", "tls.key"):
            (self.folder / name).symlink_to(Path("..data", name))

    def issue(self, name: str) -> None:
        """Mount a new pair of this authority."""
        certificate, key = self.authority.server(name)
        self.put(name, certificate.read_bytes(), key.read_bytes())

    def put(self, name: str, certificate: bytes, key: bytes) -> None:
        """Mount these two files."""
        version = self.folder / f"..{name}"
        version.mkdir()
        (version / "tls.crt").write_bytes(certificate)
        (version / "tls.key").write_bytes(key)
        link = self.folder / "..data_tmp"
        link.symlink_to(version.name)
        link.rename(self.folder / "..data")


@asynccontextmanager
async def run(one: Webhooks) -> AsyncIterator[None]:
    """Run webhooks, ready or not, from when they listen."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(one.run())
        await one.server.listening.wait()
        try:
            yield
        finally:
            task.cancel()


@asynccontextmanager
async def passing_on(port: int, to: int) -> AsyncIterator[None]:
    """Pass on what comes to a port to another one."""

    async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(2**16):
                target.write(data)
        except ConnectionError:
            pass
        finally:
            target.transport.abort()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream, other = await asyncio.open_connection("127.0.0.1", to)
            await asyncio.gather(pump(reader, other), pump(upstream, writer))
        finally:
            writer.transport.abort()

    carried: set[asyncio.Task[None]] = set()
    server = await asyncio.start_server(
        lambda reader, writer: carried.add(asyncio.create_task(carry(reader, writer))), "127.0.0.1", port
    )
    try:
        yield
    finally:
        server.close()
        for task in carried:
            task.cancel()
    await asyncio.gather(*carried, return_exceptions=True)
    await asyncio.sleep(0)  # aborted connections close their sockets in the next iteration of the loop


# ---------------------------------------------------------------------- readiness


async def test_certificate_and_configuration_are_waited_for(client: Client, namespace: str) -> None:
    port = free_port()
    document = validating(namespace, port)
    one = hooks(client, [document], SharedCertificates(secret="cert", namespace=namespace, hosts=["127.0.0.1"]), port)
    assert await one.unready() == "no certificate yet: it is being made"
    async with run(one):
        assert "does not exist" in (await one.unready() or "")
        async with existing(client, document):
            await reachable(one)


async def test_wrong_authority_is_named_and_its_mending_noticed(client: Client, namespace: str, tmp_path: Path) -> None:
    mount, port = Mount(tmp_path), free_port()
    mount.issue("one")
    document = validating(namespace, port, caBundle=encoded(Authority(tmp_path / "other").pem))
    name = document["metadata"]["name"]
    one = hooks(client, [document], CertificateFolder(path=mount.folder), port)
    async with existing(client, document), run(one):
        reason = await one.unready() or ""
        assert reason.startswith(f"ValidatingWebhookConfiguration {name}: hook0.{namespace}.example.com: ")
        assert "certificate verify failed" in reason
        bundle = {"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": encoded(mount.authority.pem)}
        await client.patch(VALIDATING, name, "", [bundle], type="json")
        assert await one.unready() is None
        await client.patch(VALIDATING, name, "", [{"op": "remove", "path": bundle["path"]}], type="json")
        one._reach._looked_at = float("-inf")
        assert "has no CA bundle" in (await one.unready() or "")


async def test_proof_is_that_the_api_server_asked(client: Client, namespace: str) -> None:
    """Our own handshake succeeds, but what the API server was told to call is another port, where nobody listens."""
    port, told = free_port(), free_port()
    proof = dry_run_proof(client, config_map(namespace, "proof"), kind=ConfigMap.RESOURCE)
    one = hooks(client, [validating(namespace, port)], ByURL(url=f"https://127.0.0.1:{told}"), port, proof=proof)
    async with run(one):
        # API servers learn of a configuration a moment after it was written.
        reason = await eventually(one.unready, lambda text: "failed calling webhook" in (text or ""))
        assert "connection refused" in (reason or "")
        async with passing_on(told, port):
            await reachable(one)
            await create(client, config_map(namespace, "seen"))
        assert await one.unready() is None, "asked once per certificate"


async def test_refusal_by_the_webhook_is_a_proof_as_well(client: Client, namespace: str) -> None:
    port = free_port()
    proof = dry_run_proof(client, config_map(namespace, "proof", bad="x"), kind=ConfigMap.RESOURCE)
    one = hooks(client, [validating(namespace, port)], ByURL(url=f"https://127.0.0.1:{port}"), port, proof=proof)
    async with serving(one):
        assert await one.unready() is None


async def test_who_may_not_ask_is_told_so_and_ready(
    control_plane: ControlPlane, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    limited = Client(HTTPTransport(load_config(control_plane.add_user(f"user-{namespace}"))))
    with caplog.at_level(logging.WARNING):
        await dry_run_proof(limited, config_map(namespace, "proof"), kind=ConfigMap.RESOURCE)()
    await limited.close()
    assert "cannot check whether the API server reaches this server" in caplog.text
    assert "cannot create resource" in caplog.text


# ---------------------------------------------------------------------- from files


async def test_files_are_served_followed_and_garbage_is_not(client: Client, namespace: str, tmp_path: Path) -> None:
    mount, port = Mount(tmp_path), free_port()
    mount.issue("old")
    document = validating(namespace, port, caBundle=encoded(mount.authority.pem))
    one = hooks(client, [document], CertificateFolder(path=mount.folder, period=0.05), port)
    async with existing(client, document), serving(one):
        await create(client, config_map(namespace, "old"))
        before = one.serving.fingerprint
        mount.issue("new")
        await eventually(lambda: one.serving.fingerprint != before, what="the new files are served")
        await reachable(one)
        await create(client, config_map(namespace, "new"))

        files, good = one._files, one.serving.fingerprint
        assert files is not None
        _, other_key = mount.authority.server("other")
        for name, certificate, key in (
            ("garbage", b"garbage", b"garbage"),
            ("mixed", (mount.folder / "tls.crt").resolve().read_bytes(), other_key.read_bytes()),
        ):
            files.last_error = ""
            mount.put(name, certificate, key)
            await eventually(lambda: files.last_error, what="the broken pair is noticed")
            assert "the previous one stays in use" in files.last_error
            assert one.serving.fingerprint == good
            await reachable(one)  # a handshake of its own
            await create(client, config_map(namespace, name))  # the API server's connection may be an old one
        mount.issue("last")
        await eventually(lambda: one.serving.fingerprint != good, what="the repaired pair is served")
        assert files.last_error == ""
