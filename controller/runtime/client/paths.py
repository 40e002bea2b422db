# SPDX-License-Identifier: Apache-2.0
"""URL paths of objects: no name that a caller passes on may lead anywhere else.

Names often come out of somebody's spec. An empty one would turn the object into its collection, so that deleting it
deletes them all; one with a slash leads to another resource. Both are refused before anything is sent, as by client-go.
"""

from urllib.parse import quote

from trainwright.api.base import Resource
from trainwright.controller.runtime.errors import BadRequest

_SAFE = ":@!$&'()*+,;="
"""What a path segment may hold unescaped, beside letters, digits and -._~ (RFC 3986)."""


def object_path(resource: Resource, name: str, namespace: str = "", subresource: str = "") -> str:
    """The path of one object. Raises BadRequest, unsent, for a name or namespace that cannot be one."""
    if resource.namespaced and not namespace:
        raise _unusable(f"{resource.kind} {name!r}: its namespace is missing")
    return resource.path(_segment(resource, namespace), _segment(resource, name, needed=True), subresource or None)


def collection_path(resource: Resource, namespace: str = "") -> str:
    """The path of all objects, or of those of a namespace. Raises BadRequest, unsent, for one that cannot be one."""
    return resource.path(_segment(resource, namespace) or None)


def _segment(resource: Resource, text: str, *, needed: bool = False) -> str:
    if text in {".", ".."} or "/" in text or "%" in text or (needed and not text):
        raise _unusable(f"{text!r} cannot be the name of a {resource.kind} or of its namespace")
    return quote(text, safe=_SAFE)


def _unusable(message: str) -> BadRequest:
    return BadRequest(message, code=400, reason="BadRequest")
