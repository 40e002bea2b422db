# SPDX-License-Identifier: Apache-2.0
"""Request bodies: JSON or YAML in, a document out, and what is odd about it."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import yaml

from trainwright.api.manifest import ManifestError, load
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver import bodykinds, errors, protobuf
from trainwright.controller.local.apiserver.call import Call
from trainwright.controller.local.apiserver.patch import read_json
from trainwright.controller.local.apiserver.schema import DecodeError

LIMIT = 3 * 2**20
"""Bytes of a body at most."""
JSON, YAML = "application/json", "application/yaml"
_ACCEPTED = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")


class UnreadableError(ValueError):
    """A body is neither JSON nor YAML."""


def content_type(call_headers: str) -> str:
    """The media type of a header, without parameters."""
    return call_headers.partition(";")[0].strip().lower()


def read_object(call: Call, validation: str) -> Document:
    """The object in the body, of the kind and version of the URL. Unknown fields are taken out; defaults are not set.

    A subresource may have a kind in another group, such as TokenRequest.

    Raises StatusError.
    """
    strict: list[str] = []
    document = bodykinds.checked(call, _decoded(call, strict if validation != "Ignore" else None))
    try:
        strict += _decoder(call)(document)
    except DecodeError as error:
        kind, version = _body_kind(call)
        raise errors.bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {error}') from error
    report_strict(call, strict, validation)
    return document


def read_plain(call: Call, kind: str, version: str) -> Document:
    """The body of an endpoint that takes a kind of its own. Raises StatusError."""
    document = _decoded(call, None)
    if not isinstance(document, dict):
        raise bodykinds.unrecognized(call, bodykinds.not_an_object(document))
    if (document.get("kind") or kind, document.get("apiVersion") or version) != (kind, version):
        given = f"{document.get('apiVersion')}, Kind={document.get('kind')}"
        raise errors.bad_request(f"{given} cannot be handled as a {kind}")
    return document


def _decoded(call: Call, strict: list[str] | None) -> Any:
    """The body by its content type. Raises StatusError."""
    media = content_type(call.request.headers.get("content-type", "")) or JSON
    if media == protobuf.MEDIA_TYPE and not call.served.type.custom:
        try:
            return protobuf.decode(call.request.body)
        except protobuf.ProtobufError as error:
            raise errors.bad_request(str(error)) from error
    if media not in (JSON, YAML):
        raise errors.unsupported_media_type(_ACCEPTED)
    try:
        return parse(call.request.body, yaml_allowed=media == YAML, strict=strict)
    except UnreadableError as error:
        raise bodykinds.unrecognized(call, str(error)) from error


def report_strict(call: Call, strict: list[str], validation: str) -> None:
    """Warn of, or refuse, what strict decoding found."""
    if not strict or validation == "Ignore":
        return
    if validation == "Strict":
        kind, version = _body_kind(call)
        raise errors.bad_request(
            f'{kind} in version "{version}" cannot be handled as a {kind}: strict decoding error: {", ".join(strict)}'
        )
    for text in strict:
        call.warn(text)


def _body_kind(call: Call) -> tuple[str, str]:
    """Kind and version of the body."""
    sub = call.served.subresources.get(call.subresource)
    return (sub.kind, sub.version) if sub is not None and sub.version else (call.kind, call.served.version)


def _decoder(call: Call) -> Callable[[Document], list[str]]:
    sub = call.served.subresources.get(call.subresource)
    return sub.structs if sub is not None and sub.structs is not None else call.served.decode


def parse(body: bytes, *, yaml_allowed: bool = False, strict: list[str] | None = None) -> Any:
    """Decode JSON, or YAML where that is allowed. Keys that are there twice are added to `strict`.

    Raises UnreadableError.
    """
    if yaml_allowed:
        try:
            return read_yaml(body)
        except (ManifestError, yaml.YAMLError, UnicodeDecodeError) as error:
            raise UnreadableError(f"yaml: {error}") from error
    try:
        document = read_json(body)
    except ValueError as error:
        raise UnreadableError(f"couldn't get version/kind; json parse error: {error}") from error
    if strict is not None:
        strict += doubled_keys(body)
    return document


def read_yaml(body: bytes) -> Any:
    """Decode YAML. Most of it is JSON, which is read a hundred times faster.

    Raises:
        ManifestError, UnicodeDecodeError: it is not YAML.
    """
    if body.lstrip()[:1] in (b"{", b"["):
        with suppress(ValueError):
            return read_json(body)
    return load(body.decode())


def doubled_keys(body: bytes) -> list[str]:
    """Keys that an object has twice: `duplicate field "spec.x"`."""
    found = False

    def pairs(items: list[tuple[str, Any]]) -> Any:
        nonlocal found
        made = dict(items)
        found = found or len(made) != len(items)
        return made

    # Without paths first: nearly no body has such keys.
    json.loads(body, object_pairs_hook=pairs)
    if not found:
        return []
    named: list[str] = []
    _walk(json.loads(body, object_pairs_hook=_Pairs), "", named)
    return named


class _Pairs(list[tuple[str, Any]]):
    """An object with all of its pairs."""


def _walk(value: Any, path: str, named: list[str]) -> None:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, inner in value:
            where = f"{path}.{key}" if path else key
            if key in seen and (text := f'duplicate field "{where}"') not in named:
                named.append(text)
            seen.add(key)
            _walk(inner, where, named)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _walk(inner, f"{path}[{index}]", named)
