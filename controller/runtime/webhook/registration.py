# SPDX-License-Identifier: Apache-2.0
"""Registers the webhooks of a process outside the cluster by URL, for as long as it runs.

The configurations carry a label of such processes. A configuration without the label belongs to an installation and is
not changed. One with the label was left by a process that was killed, and is taken over.
"""

import logging
from collections.abc import Sequence

from trainwright.api.objects import AnyObject, Document, labels_of, uid_of, wire
from trainwright.controller.runtime.certificates.injection import fetch_configuration
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.errors import Conflict, NotControlled, NotFound
from trainwright.controller.runtime.webhook.configurations import injection_target_of, webhooks_by_url

log = logging.getLogger(__name__)

LABEL = "trainwright.dev/registered-by-url"


class WebhookRegistration:
    def __init__(self, client: Client, documents: Sequence[Document], url: str, *, field_manager: str) -> None:
        """`documents`: as in an installation. `url`: scheme, host and port for the API server to call."""
        self._client = client
        self._documents = documents
        self._url = url
        self._field_manager = field_manager
        self._registered: list[tuple[Document, str]] = []

    async def register(self, bundle: bytes) -> None:
        """Create or take over the configurations. Raises NotControlled for that of an installation, KubernetesError."""
        for document in self._documents:
            target = injection_target_of(document)
            existing = await fetch_configuration(self._client, target)
            if existing is not None and labels_of(existing).get(LABEL) != "true":
                raise NotControlled(
                    f"{target} belongs to an installation in the cluster and was not changed: remove the installation,"
                    " or run without a webhook URL"
                )
            wanted = webhooks_by_url(document, self._url, bundle, {LABEL: "true"})
            # Noted before it is sent: it can be in force though its answer was lost, or the process was told to stop.
            self._registered.append((wanted, ""))
            applied = await self._client.apply(
                wanted, kind=target.kind.RESOURCE, field_manager=self._field_manager, force=True
            )
            self._registered[-1] = (wanted, uid_of(applied))
            log.info("%s: registered at %s", target, self._url)

    async def unregister(self) -> None:
        """Remove the registered configurations, unless they were replaced. Raises KubernetesError."""
        while self._registered:
            document, uid = self._registered[-1]
            target = injection_target_of(document)
            try:
                uid = uid or await self._own(document)
                if uid:
                    await self._client.delete(target.kind, target.name, uid=uid)
            except (NotFound, Conflict):
                log.info("%s: was replaced by another program and is not removed", target)
            self._registered.pop()

    async def _own(self, document: Document) -> str:
        """The uid of a configuration whose registration had no answer; empty if it is not there, or another's."""
        found = await fetch_configuration(self._client, injection_target_of(document))
        if found is None or labels_of(found).get(LABEL) != "true" or _urls(found) != _urls(document):
            return ""
        return uid_of(found)


def _urls(configuration: AnyObject) -> list[str]:
    return [webhook["clientConfig"].get("url", "") for webhook in wire(configuration).get("webhooks") or ()]
