# SPDX-License-Identifier: Apache-2.0
"""Webhook configurations as documents: their targets, paths and addresses."""

import base64
from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import TypeAlias
from urllib.parse import urlsplit

from trainwright.api.kubernetes.admissionregistration.v1 import (
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from trainwright.api.objects import Document
from trainwright.controller.runtime.certificates.injection import Configuration, InjectionTarget
from trainwright.controller.runtime.errors import ConfigurationError

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
