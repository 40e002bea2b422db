# SPDX-License-Identifier: Apache-2.0
"""Sets the CA bundle of webhook configurations, only where it differs.

Server-side apply of nothing but `caBundle`, with the resourceVersion that was read. A replica that read an older
version gets Conflict and reads again, so an old bundle never replaces a newer one.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from trainwright.api.kubernetes.admissionregistration.v1 import (
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from trainwright.api.objects import Document, name_of, resource_version_of
from trainwright.controller.runtime.certificates.material import same_authorities
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.errors import NotFound

FIELD_MANAGER = "webhook-certificates"
"""Default field manager of CA bundles and of configurations that are registered by URL."""

Configuration: TypeAlias = MutatingWebhookConfiguration | ValidatingWebhookConfiguration


@dataclass(frozen=True, slots=True)
class InjectionTarget:
    """A webhook configuration by kind and name."""

    kind: type[MutatingWebhookConfiguration] | type[ValidatingWebhookConfiguration]
    name: str

    def __str__(self) -> str:
        return f"{self.kind.RESOURCE.kind} {self.name}"


async def fetch_configuration(client: Client, target: InjectionTarget) -> Configuration | None:
    """Read a configuration; None if it does not exist."""
    try:
        return await client.get(target.kind, target.name)
    except NotFound:
        return None


def bundles(configuration: Configuration) -> Mapping[str, bytes]:
    """The CA bundle of each webhook; empty if not set."""
    return {webhook.name: _pem(webhook.client_config.ca_bundle) for webhook in configuration.webhooks or ()}


async def inject(client: Client, configuration: Configuration, bundle: bytes, *, field_manager: str) -> bool:
    """Set the bundle on every webhook; True if that needed a write. Raises Conflict if the object has changed."""
    held = bundles(configuration)
    if all(same_authorities(one, bundle) for one in held.values()):
        return False
    encoded = base64.b64encode(bundle).decode()
    resource = type(configuration).RESOURCE
    document: Document = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name_of(configuration), "resourceVersion": resource_version_of(configuration)},
        "webhooks": [{"name": name, "clientConfig": {"caBundle": encoded}} for name in held],
    }
    await client.apply(document, kind=resource, field_manager=field_manager, force=True)
    return True


def _pem(text: str | None) -> bytes:
    try:
        return base64.b64decode(text or "", validate=True)
    except binascii.Error:
        return b""
