# SPDX-License-Identifier: Apache-2.0
"""Objects of custom resources in another version than the stored one, converted by the webhook of their definition."""

from collections.abc import Iterable

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.admission.calling import CallError, WebhookCaller
from trainwright.controller.local.apiserver.admission.request import AdmissionRequest
from trainwright.controller.local.apiserver.kinds.conversion import ConversionError
from trainwright.controller.local.apiserver.kinds.registry import Resource
from trainwright.controller.local.apiserver.request.info import encode
from trainwright.controller.local.apiserver.store import StoredObject
from trainwright.controller.local.values import copied

_SECONDS = 30.0


class Conversions:
    """Asks conversion webhooks. Most resources have none, and nothing is awaited for them."""

    def __init__(self, caller: WebhookCaller) -> None:
        self._caller = caller

    async def prepare(self, resource: Resource, found: Iterable[StoredObject]) -> None:
        """Before `resource.named` is called for stored objects. Raises StatusError."""
        if resource.conversion is not None:
            await self._ask(resource, [one.document() for one in found], resource.api_version)

    async def listed(self, resource: Resource, found: Iterable[StoredObject]) -> Iterable[StoredObject]:
        """The same objects, prepared. Raises StatusError."""
        if resource.conversion is not None:
            found = list(found)
            await self.prepare(resource, found)
        return found

    async def served(self, resource: Resource, document: Document) -> Document:
        """A document in the version of a resource. Raises StatusError."""
        if resource.conversion is not None:
            await self._ask(resource, [document], resource.api_version)
        return resource.named(document)

    async def stored(self, resource: Resource, document: Document) -> Document:
        """A document of a version of a resource as it is stored. Raises StatusError."""
        if resource.conversion is not None:
            await self._ask(resource, [document], resource.storage_api_version)
        return resource.stored(document)

    async def objects(self, request: AdmissionRequest, served: Resource) -> Document:
        """Object and old object of a request in a version of its resource. Raises StatusError."""

        async def shown(document: Document | None) -> Document | None:
            if document is None or served.api_version == request.call.resource.api_version:
                return document
            # A copy, since the other version drops the fields that it does not know.
            return await self.served(served, copied(document))

        new = request.new if request.has_own_object else await shown(request.new)
        return {"object": new, "oldObject": await shown(request.old)}

    async def _ask(self, resource: Resource, documents: list[Document], api_version: str) -> None:
        """Ask about those whose form is not known, all at once, but by their version as the real server does."""
        conversion = resource.conversion
        assert conversion is not None
        missing = conversion.missing(documents, api_version)
        for version in dict.fromkeys(one["apiVersion"] for one in missing):
            asked = [one for one in missing if one["apiVersion"] == version]
            review = conversion.review(asked, api_version)
            try:
                body = await self._caller.send(conversion.client_config, encode(review), _SECONDS)
                conversion.accept(asked, api_version, review, body)
            except (CallError, ConversionError, TimeoutError) as error:
                why = str(error) or "context deadline exceeded"
                raise errors.plain_internal(
                    f"conversion webhook for {version}, Kind={resource.kind} failed: {why}"
                ) from error
