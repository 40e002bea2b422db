# SPDX-License-Identifier: Apache-2.0
"""Request bodies: JSON or protobuf in, a document of the right kind out, and what is odd about it."""

import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import yaml

from trainwright.api import manifest
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.request import protobuf
from trainwright.controller.local.apiserver.request.info import RequestInfo, WriteQuery
from trainwright.controller.local.types.go_json import DocumentDecodeError
from trainwright.controller.local.values import read_json


def read_applied(body: bytes) -> tuple[Any, list[str]]:
    """Decode a configuration to apply, JSON or YAML; also warnings about duplicate keys of JSON. Raises ValueError."""
    if body.lstrip()[:1] == b"{":
        with suppress(ValueError):
            return read_json(body), duplicate_keys(body)
    text = body.decode()
    try:
        manifest.check_depth(text)
        aliases = any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.CSafeLoader))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    if aliases:
        raise ValueError("aliases are not taken: a small text could stand for an enormous document")
    return manifest.load(text), []


class _Pairs(list[tuple[str, Any]]):
    """An object with all of its pairs."""


def duplicate_keys(body: bytes) -> list[str]:
    """Warnings about duplicate keys in a JSON body, such as `duplicate field "spec.x"`. The last value counts."""
    text = body.decode(errors="replace")
    found = False

    def pairs(items: list[tuple[str, Any]]) -> Any:
        nonlocal found
        made = dict(items)
        found = found or len(made) != len(items)
        return made

    # Without paths first: nearly no body has such keys.
    json.loads(text, object_pairs_hook=pairs)
    named: dict[str, None] = {}
    if found:
        _name_duplicates(json.loads(text, object_pairs_hook=_Pairs), "", named)
    return [f'duplicate field "{where}"' for where in named]


def _name_duplicates(value: Any, path: str, named: dict[str, None]) -> None:
    seen: set[str] = set()
    for name, inner in value if isinstance(value, _Pairs) else ():
        where = f"{path}.{name}" if path else name
        if name in seen:
            named[where] = None
        seen.add(name)
        _name_duplicates(inner, where, named)
    for index, inner in enumerate(value if type(value) is list else ()):
        _name_duplicates(inner, f"{path}[{index}]", named)


LIMIT = 3 * 2**20
"""Bytes of a body at most."""
JSON = "application/json"
ACCEPTED = (JSON, protobuf.MEDIA_TYPE)
"""Media types of bodies."""


def content_type(header: str) -> str:
    return header.partition(";")[0].strip().lower()


def check_size(call: RequestInfo) -> None:
    if len(call.request.body) > LIMIT:
        raise errors.too_large(f"limit is {LIMIT}")


def read_object(call: RequestInfo, options: WriteQuery) -> Document:
    """The object in the body, of the kind and version of the URL. Unknown fields are taken out; defaults are not set.

    A subresource may have a kind of its own, such as TokenRequest. The real server decodes a built-in kind into its Go
    struct: a body may leave kind and version out, and one of another kind fails to convert. A custom resource is
    decoded as it is: it must say both, and a wrong kind is left to validation.

    Raises StatusError.
    """
    strict: list[str] = []
    built_in = bool(call.resource.body_model(call.subresource))
    document = decoded(call, strict)
    if document is None and built_in:
        document = {}
    if (problem := wrong_type_meta(document)) is not None:
        raise _unrecognized(call, problem)
    wanted, version = expected(call)
    if built_in:
        kind = document["kind"] = document.get("kind") or wanted
        said = document["apiVersion"] = document.get("apiVersion") or version
        if (kind, said) != (wanted, version):
            raise _cannot_be_handled(call, f"it is a {kind} in version {said}")
    elif not document.get("kind"):
        raise _unrecognized(call, "kind is missing")
    if (said := document.get("apiVersion") or "") != version:
        what = f"the API version in the data ({said}) does not match the expected API version ({version})"
        raise errors.bad_request(what)
    if call.subresource:
        document["kind"] = wanted
    try:
        strict += call.resource.decode(document, call.subresource)
    except DocumentDecodeError as error:
        raise _cannot_be_handled(call, str(error)) from error
    report_strict(call, strict, options, partial(_cannot_be_handled, call))
    made: Document = document
    return made


def report_strict(
    call: RequestInfo, found: list[str], options: WriteQuery, refuse: Callable[[str], errors.StatusError]
) -> None:
    """Warn of unknown fields and duplicate keys, or refuse them, as `fieldValidation` says. Raises StatusError."""
    if found and options.validation == "Strict":
        raise refuse(f"strict decoding error: {', '.join(found)}")
    for text in found if options.validation != "Ignore" else ():
        call.warn(text)


def decoded(call: RequestInfo, strict: list[str] | None = None, protobuf_as: tuple[str, str] | None = None) -> Any:
    """The body by its content type; `strict` gets warnings about duplicate keys. Raises StatusError.

    `protobuf_as`: apiVersion and kind of a protobuf body that need not say them, such as DeleteOptions.
    """
    media, body = content_type(call.request.headers.get("content-type", "")) or JSON, call.request.body
    if media == protobuf.MEDIA_TYPE and (protobuf_as is not None or not call.resource.custom):
        try:
            return protobuf.decode(body, protobuf_as)
        except protobuf.ProtobufError as error:
            raise errors.bad_request(str(error)) from error
    if media != JSON:
        raise errors.unsupported_media_type(ACCEPTED)
    try:
        document = read_json(body)
    except ValueError as error:
        raise _unrecognized(call, f"json: {error}") from error
    if strict is not None:
        strict += duplicate_keys(body)
    return document


def wrong_type_meta(document: Any) -> str | None:
    """Why neither kind nor version of a body can be read; None if they can."""
    if not isinstance(document, dict):
        return "couldn't get version/kind: the body is not an object"
    for name in ("apiVersion", "kind"):
        if document.get(name) is not None and not isinstance(document[name], str):
            return f"couldn't get version/kind: {name} is not a string"
    return None


def expected(call: RequestInfo) -> tuple[str, str]:
    sub = call.resource.subresources.get(call.subresource)
    if sub is None:
        return call.kind, call.resource.api_version
    return sub.kind, call.resource.api_version_of(sub)


def _unrecognized(call: RequestInfo, why: str) -> errors.StatusError:
    """The answer for a body of which not even the kind can be told."""
    return errors.bad_request(f"the object provided is unrecognized (must be of type {expected(call)[0]}): {why}")


def _cannot_be_handled(call: RequestInfo, why: str) -> errors.StatusError:
    kind, version = expected(call)
    return errors.bad_request(f'{kind} in version "{version.rpartition("/")[2]}" cannot be handled as a {kind}: {why}')
