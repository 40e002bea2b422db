# SPDX-License-Identifier: Apache-2.0
"""Subresources other than status: scale, eviction, token, binding. Status is an option of the writing verbs."""

import msgspec

from trainwright.api.objects import Document
from trainwright.controller.runtime.client.session import ApiSession
from trainwright.controller.runtime.client.transport import Request, object_path
from trainwright.controller.runtime.kinds import Kind, codec_of

_JSON = "application/json"
_MERGE = "application/merge-patch+json"
_ENCODER = msgspec.json.Encoder()


class Subresources(ApiSession):
    async def post_subresource(
        self, kind: Kind, name: str, namespace: str, subresource: str, body: Document
    ) -> Document:
        """Create through a subresource (eviction, token, binding); returns the answer. Raises ApiError."""
        path = object_path(codec_of(kind).resource, name, namespace, subresource)
        request = Request("POST", path, {}, {"Accept": _JSON, "Content-Type": _JSON}, _ENCODER.encode(body))
        answer: Document = msgspec.json.decode((await self.send(request)).body)
        return answer

    async def get_scale(self, kind: Kind, name: str, namespace: str = "") -> int:
        """Read spec.replicas through the scale subresource. Raises NotFound if the kind has none."""
        path = object_path(codec_of(kind).resource, name, namespace, "scale")
        answer: Document = msgspec.json.decode((await self.send(Request("GET", path, {}, {"Accept": _JSON}))).body)
        return int((answer.get("spec") or {}).get("replicas") or 0)

    async def set_scale(self, kind: Kind, name: str, namespace: str, replicas: int) -> None:
        """Set spec.replicas through the scale subresource. Raises NotFound, Invalid, TransportError."""
        path = object_path(codec_of(kind).resource, name, namespace, "scale")
        headers = {"Accept": _JSON, "Content-Type": _MERGE}
        await self.send(Request("PATCH", path, {}, headers, _ENCODER.encode({"spec": {"replicas": replicas}})))
