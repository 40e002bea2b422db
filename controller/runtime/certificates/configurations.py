# SPDX-License-Identifier: Apache-2.0
"""Configurations of webhooks: their targets, paths and addresses, and their CA bundle, set only where it differs.

A CustomResourceDefinition whose versions a webhook converts is one, too.

The bundle is set by server-side apply of nothing but `caBundle`, with the resourceVersion that was read. A replica that
read an older version gets Conflict and reads again, so an old bundle never replaces a newer one.
"""

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from urllib.parse import urlsplit

from trainwright.api.base import Resource
from trainwright.api.kubernetes.admissionregistration.v1 import (
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from trainwright.api.objects import Document, name_of, resource_version_of
from trainwright.controller.runtime.certificates.material import same_authorities
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.errors import ConfigurationError, NotFound
from trainwright.controller.runtime.kinds import DEFINITION

FIELD_MANAGER = "webhook-certificates"
"""Default field manager of CA bundles and of configurations that are registered by URL."""

KINDS = {
    one.kind: one
    for one in (MutatingWebhookConfiguration.RESOURCE, ValidatingWebhookConfiguration.RESOURCE, DEFINITION)
}
_CONVERSION = "conversion"
"""Name of the only webhook of a definition."""


@dataclass(frozen=True, slots=True)
class InjectionTarget:
    """A configuration by kind and name."""

    kind: Resource
    name: str

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.name}"


async def fetch_configuration(client: Client, target: InjectionTarget) -> Document | None:
    """Read a configuration; None if it does not exist."""
    try:
        return await client.get(target.kind, target.name)
    except NotFound:
        return None


def bundles(configuration: Document) -> Mapping[str, bytes]:
    """The CA bundle of each webhook; empty if not set."""
    return {name: _pem(client.get("caBundle")) for name, client in _clients(configuration)}


async def inject(client: Client, configuration: Document, bundle: bytes, *, field_manager: str) -> bool:
    """Set the bundle on every webhook; True if that needed a write. Raises Conflict if the object has changed."""
    held = bundles(configuration)
    if all(same_authorities(one, bundle) for one in held.values()):
        return False
    encoded = {"clientConfig": {"caBundle": base64.b64encode(bundle).decode()}}
    kind = KINDS[configuration["kind"]]
    document: Document = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name_of(configuration), "resourceVersion": resource_version_of(configuration)},
    }
    if kind == DEFINITION:
        document["spec"] = {"conversion": {"strategy": "Webhook", "webhook": encoded}}
    else:
        document["webhooks"] = [{"name": name, **encoded} for name in held]
    await client.apply(document, kind=kind, field_manager=field_manager, force=True)
    return True


def _clients(configuration: Document) -> Iterator[tuple[str, Document]]:
    """The name and the `clientConfig` of each webhook."""
    if configuration["kind"] != DEFINITION.kind:
        for webhook in configuration.get("webhooks") or ():
            yield webhook["name"], webhook.get("clientConfig") or {}
        return
    conversion = configuration["spec"].get("conversion") or {}
    if conversion.get("strategy") == "Webhook":
        yield _CONVERSION, (conversion.get("webhook") or {}).get("clientConfig") or {}


def _pem(text: str | None) -> bytes:
    try:
        return base64.b64decode(text or "", validate=True)
    except binascii.Error:
        return b""


def injection_target_of(document: Document) -> InjectionTarget:
    """The kind and name of a document. Raises ConfigurationError if it configures no webhooks."""
    kind = KINDS.get(str(document.get("kind")))
    name = (document.get("metadata") or {}).get("name")
    if kind is None or not name:
        raise ConfigurationError(f"{document.get('kind')} {name}: not a webhook configuration with a name")
    return InjectionTarget(kind, name)


def paths_of(documents: Iterable[Document]) -> set[str]:
    """The paths that the API server calls."""
    return {_path(client) for document in documents for _, client in _clients(document)}


def webhooks_by_url(document: Document, url: str, bundle: bytes, labels: dict[str, str]) -> Document:
    """A copy that calls `url` (scheme, host and port) and trusts `bundle`."""
    changed = deepcopy(document)
    metadata = changed.setdefault("metadata", {})
    if labels:
        metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    for _, client in _clients(changed):
        place = url.rstrip("/") + _path(client)
        client.clear()
        client.update(url=place, caBundle=base64.b64encode(bundle).decode())
    return changed


def names_reached(configuration: Document) -> Sequence[tuple[str, str]]:
    """For each webhook its name, and the host name that the API server expects in the server certificate."""
    found = []
    for name, client in _clients(configuration):
        if service := client.get("service"):
            found.append((name, f"{service['name']}.{service['namespace']}.svc"))
        elif url := client.get("url"):
            found.append((name, urlsplit(url).hostname or ""))
    return found


def _path(client: Document) -> str:
    service = client.get("service") or {}
    return str(service.get("path") or urlsplit(client.get("url") or "").path or "/")
