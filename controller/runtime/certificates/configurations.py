# SPDX-License-Identifier: Apache-2.0
"""Webhook configurations: their targets, paths and addresses, and their CA bundle, which is set only where it differs.

The bundle is set by server-side apply of nothing but `caBundle`, with the resourceVersion that was read. A replica that
read an older version gets Conflict and reads again, so an old bundle never replaces a newer one.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import urlsplit

from trainwright.api.kubernetes.admissionregistration.v1 import (
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from trainwright.api.objects import Document, name_of, resource_version_of
from trainwright.controller.runtime.certificates.material import same_authorities
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.errors import ConfigurationError, NotFound

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


Kind: TypeAlias = type[MutatingWebhookConfiguration] | type[ValidatingWebhookConfiguration]
KINDS: dict[str, Kind] = {
    kind.RESOURCE.kind: kind for kind in (MutatingWebhookConfiguration, ValidatingWebhookConfiguration)
}


def injection_target_of(document: Document) -> InjectionTarget:
    """The kind and name of a document. Raises ConfigurationError if it is not a webhook configuration."""
    kind = KINDS.get(str(document.get("kind")))
    name = (document.get("metadata") or {}).get("name")
    if kind is None or not name:
        raise ConfigurationError(f"{document.get('kind')} {name}: not a webhook configuration with a name")
    return InjectionTarget(kind, name)


def paths_of(documents: Iterable[Document]) -> set[str]:
    """The paths that the API server calls."""
    return {_path(webhook) for document in documents for webhook in document.get("webhooks") or ()}


def webhooks_by_url(document: Document, url: str, bundle: bytes, labels: dict[str, str]) -> Document:
    """A copy that calls `url` (scheme, host and port) and trusts `bundle`."""
    changed = deepcopy(document)
    metadata = changed.setdefault("metadata", {})
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    for webhook in changed.get("webhooks") or ():
        webhook["clientConfig"] = {
            "url": url.rstrip("/") + _path(webhook),
            "caBundle": base64.b64encode(bundle).decode(),
        }
    return changed


def names_reached(configuration: Configuration) -> Sequence[tuple[str, str]]:
    """For each webhook its name, and the host name that the API server expects in the server certificate."""
    found = []
    for webhook in configuration.webhooks or ():
        client = webhook.client_config
        if client.service is not None:
            found.append((webhook.name, f"{client.service.name}.{client.service.namespace}.svc"))
        elif client.url:
            found.append((webhook.name, urlsplit(client.url).hostname or ""))
    return found


def _path(webhook: Document) -> str:
    client = webhook.get("clientConfig") or {}
    service = client.get("service") or {}
    return str(service.get("path") or urlsplit(client.get("url") or "").path or "/")
