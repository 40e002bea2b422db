# SPDX-License-Identifier: Apache-2.0
"""URL paths of objects. A name cannot change which object a path leads to.

Names often come from the spec of a user. An empty name would turn the object into its collection, so a delete would
remove all objects; a slash would lead to another resource. Both are refused before a request is sent, as in client-go.
"""

import re
from urllib.parse import quote

from trainwright.api.base import Resource
from trainwright.controller.runtime.errors import BadRequest

_SAFE = ":@!$&'()*+,;="
"""Characters that a path segment may contain unescaped, beside letters, digits and -._~ (RFC 3986)."""


_PLAIN = re.compile(r"[A-Za-z0-9_.~-]*").fullmatch


def object_path(resource: Resource, name: str, namespace: str = "", subresource: str = "") -> str:
    """The path of one object. Raises BadRequest for an invalid name or namespace; nothing is sent."""
    if resource.namespaced and not namespace:
        raise _unusable(f"{resource.kind} {name!r} needs a namespace")
    return resource.path(_segment(resource, namespace), _segment(resource, name, needed=True), subresource or None)


def collection_path(resource: Resource, namespace: str = "") -> str:
    """The path of all objects, or of those of a namespace. Raises BadRequest for an invalid namespace."""
    return resource.path(_segment(resource, namespace) or None)


def _segment(resource: Resource, text: str, *, needed: bool = False) -> str:
    if text in {".", ".."} or "/" in text or "%" in text or (needed and not text):
        raise _unusable(f"{text!r} is not a valid name of a {resource.kind} or of its namespace")
    return text if _PLAIN(text) else quote(text, safe=_SAFE)


def _unusable(message: str) -> BadRequest:
    return BadRequest(message, code=400, reason="BadRequest")
