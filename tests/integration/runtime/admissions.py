# SPDX-License-Identifier: Apache-2.0
"""Webhooks for the ConfigMaps of one namespace, called by a real API server; shared by tests."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from prometheus_client import CollectorRegistry

from trainwright.api.base import Resource
from trainwright.api.kubernetes.admissionregistration.v1 import (
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.objects import Document
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.certificates.keeper import CertificateKeeper
from trainwright.controller.runtime.certificates.rotation import RotationPolicy
from trainwright.controller.runtime.errors import ErrorCause, Forbidden, ServerError
from trainwright.controller.runtime.testing.waiting import eventually, is_empty
from trainwright.controller.runtime.webhook.admission import (
    AdmissionRequest,
    AdmissionResponse,
    mutate_path,
    validate_path,
)
from trainwright.controller.runtime.webhook.reach import Proof
from trainwright.controller.runtime.webhook.webhooks import Certificates, Webhooks

VALIDATING = ValidatingWebhookConfiguration.RESOURCE
MUTATING = MutatingWebhookConfiguration.RESOURCE
QUICK_ROTATION = RotationPolicy(
    authority_lifetime=timedelta(hours=1),
    authority_renewal=timedelta(hours=1) - timedelta(seconds=4),
    lifetime=timedelta(minutes=30),
    renewal=timedelta(minutes=30) - timedelta(seconds=3),
    overlap=timedelta(seconds=5),
)
"""An authority every few seconds, as it would be every few months.

Within the overlap an API server learns of a new authority: in a tenth of a second, or in seconds if it is busy.
"""


def configuration(
    kind: str, namespace: str, *client_configs: dict[str, Any], asked_for: Resource = ConfigMap.RESOURCE
) -> Document:
    """A configuration for the objects of a kind in one namespace with one webhook per client configuration."""
    return {
        "apiVersion": VALIDATING.api_version,
        "kind": kind,
        "metadata": {"name": f"{kind[:5].lower()}-{namespace}"},
        "webhooks": [
            {
                "name": f"hook{index}.{namespace}.example.com",
                "clientConfig": client,
                "rules": [
                    {
                        "apiGroups": [asked_for.group],
                        "apiVersions": [asked_for.version],
                        "resources": [asked_for.plural],
                        "operations": ["CREATE", "UPDATE"],
                    }
                ],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
            }
            for index, client in enumerate(client_configs)
        ],
    }


def installed(namespace: str) -> list[Document]:
    """What manifests of an installation hold: a service and a path."""

    def service(path: str) -> dict[str, Any]:
        return {"service": {"name": "hooks", "namespace": "system", "path": path}}

    return [
        configuration(VALIDATING.kind, namespace, service(validate_path(ConfigMap))),
        configuration(MUTATING.kind, namespace, service(mutate_path(ConfigMap))),
    ]


def validate(request: AdmissionRequest[ConfigMap]) -> AdmissionResponse | None:
    assert request.new is not None
    data = request.new.data or {}
    errors = [ErrorCause("FieldValueInvalid", f"data.{key}", "must not be bad") for key in sorted(data) if "bad" in key]
    return AdmissionResponse(errors=tuple(errors), warnings=("100%s of\nthis\tis %d checked",))


def default(request: AdmissionRequest[ConfigMap]) -> None:
    assert request.new is not None
    request.new.data = {"added": "yes", **(request.new.data or {})}


def hooks(
    client: Client, documents: Sequence[Document], certificates: Certificates, port: int, *, proof: Proof | None = None
) -> Webhooks:
    made = Webhooks(
        client,
        CollectorRegistry(),
        f"127.0.0.1:{port}",
        configurations=documents,
        certificates=certificates,
        proof=proof,
    )
    made.server.validate(ConfigMap, validate)
    made.server.mutate(ConfigMap, default)
    return made


@asynccontextmanager
async def serving(*started: Webhooks) -> AsyncIterator[None]:
    """Run webhooks until the block ends, from when the API server can reach them."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one.run()) for one in started]
        try:
            for one in started:
                await reachable(one)
            yield
        finally:
            for task in tasks:
                task.cancel()


async def reachable(one: Webhooks) -> None:
    await eventually(one.unready, is_empty, seconds=30)


def config_map(namespace: str, name: str, **data: str) -> Document:
    return {"metadata": {"name": name, "namespace": namespace}, "data": data}


async def create(client: Client, document: Document, **options: Any) -> Document:
    return await client.create(document, kind=ConfigMap.RESOURCE, **options)


async def asked(client: Client, namespace: str, condition: Callable[[Document], object]) -> None:
    """API servers learn of a configuration a moment after it was written: wait for its effect."""
    await eventually(lambda: create(client, config_map(namespace, "probe"), dry_run=True), condition, seconds=30)


async def refuses(client: Client, namespace: str) -> None:
    """The same for the webhook that validates: they learn of the two kinds of configurations separately."""

    async def refusal() -> bool:
        try:
            await create(client, config_map(namespace, "probe", bad="x"), dry_run=True)
        except Forbidden:
            return True
        return False

    await eventually(refusal, seconds=30)


async def created(client: Client, document: Document) -> Document:
    """Create it as soon as the API server has heard that a configuration has changed; until then it may fail."""
    return await eventually(lambda: create(client, document), lambda _: True, ignore=(ServerError,), seconds=30)


@asynccontextmanager
async def existing(client: Client, document: Document) -> AsyncIterator[Document]:
    """A configuration that somebody installed, removed after the test."""
    resource = VALIDATING if document["kind"] == VALIDATING.kind else MUTATING
    yield await client.create(document, kind=resource)
    await client.delete(resource, document["metadata"]["name"])


class Trainings:
    """Clients that load the trusted authorities once, at their start, and verify strictly."""

    def __init__(self) -> None:
        self._contexts: dict[bytes, ssl.SSLContext] = {}

    def __len__(self) -> int:
        return len(self._contexts)

    def start(self, bundle: bytes) -> None:
        """Start one for this bundle, if there is none yet."""
        if bundle not in self._contexts:
            context = self._contexts[bundle] = ssl.create_default_context(cadata=bundle.decode())
            context.verify_flags |= ssl.VERIFY_X509_STRICT

    async def connect(self, *ports: int) -> int:
        """Connect each of them to each server; returns the number of connections. Raises SSLError if one fails."""
        made = 0
        for context in list(self._contexts.values()):
            for port in ports:
                _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
                writer.close()
                await writer.wait_closed()
                made += 1
        return made


def keeper_of(webhooks: Webhooks) -> CertificateKeeper:
    assert webhooks.keeper is not None
    return webhooks.keeper
