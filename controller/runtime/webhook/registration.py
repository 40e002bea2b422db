# SPDX-License-Identifier: Apache-2.0
"""Webhooks of a process outside of the cluster: registered by URL for as long as it runs.

The configurations carry a label that says that they are such a process's. One that does not carry it belongs to an
installation and is not touched; one that does was left behind by a process that was killed, and is taken over.
"""

import logging
from collections.abc import Sequence

from trainwright.controller.runtime.certificates.injection import fetch
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.errors import Conflict, NotControlled, NotFound
from trainwright.controller.runtime.objects import Document, labels_of, uid_of
from trainwright.controller.runtime.webhook.configurations import by_url, target_of

log = logging.getLogger(__name__)

LABEL = "trainwright.dev/registered-by-url"


class Registration:
    """The configurations of one process."""

    def __init__(self, client: Client, documents: Sequence[Document], url: str, *, field_manager: str) -> None:
        """`documents` as an installation would have them; `url` is scheme, host and port as the API server sees it."""
        self._client = client
        self._documents = documents
        self._url = url
        self._field_manager = field_manager
        self._registered: list[tuple[Document, str]] = []

    async def register(self, bundle: bytes) -> None:
        """Create or take over the configurations. Raises NotControlled for one of an installation, KubernetesError."""
        for document in self._documents:
            target = target_of(document)
            existing = await fetch(self._client, target)
            if existing is not None and labels_of(existing).get(LABEL) != "true":
                raise NotControlled(
                    f"{target} exists and was not registered by URL: an installation in the cluster uses it; remove the"
                    " installation, or run without a webhook URL"
                )
            wanted = by_url(document, self._url, bundle, {LABEL: "true"})
            applied = await self._client.apply(
                wanted, kind=target.kind.RESOURCE, field_manager=self._field_manager, force=True
            )
            self._registered.append((wanted, uid_of(applied)))
            log.info("%s: registered at %s", target, self._url)

    async def unregister(self) -> None:
        """Remove what was registered; what somebody replaced meanwhile stays. Raises KubernetesError."""
        while self._registered:
            document, uid = self._registered[-1]
            target = target_of(document)
            try:
                await self._client.delete(target.kind, target.name, uid=uid)
            except (NotFound, Conflict):
                log.info("%s: is not ours any more", target)
            self._registered.pop()
