# SPDX-License-Identifier: Apache-2.0
"""Request bodies: JSON or YAML in, a document out, and what is odd about it."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.kinds.builtin.strategy import BuiltInStrategy
from trainwright.controller.local.apiserver.merge.patch import read_json
from trainwright.controller.local.apiserver.request import bodykinds, protobuf, yamlbodies
from trainwright.controller.local.apiserver.request.call import RequestInfo
from trainwright.controller.local.apiserver.request.doubledkeys import doubled_fields, merged, pairs_of
from trainwright.controller.local.apiserver.request.yamlbodies import YAMLBodyError
from trainwright.controller.local.apiserver.schema import DocumentDecodeError

LIMIT = 3 * 2**20
"""Bytes of a body at most."""
JSON, YAML = "application/json", "application/yaml"
_YAML_ERRORS = "yaml: unmarshal errors:"
ACCEPTED = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
"""Media types of bodies."""


class UnreadableError(ValueError):
    """A body is neither JSON nor YAML."""


def content_type(call_headers: str) -> str:
    """The media type of a header, without parameters."""
    return call_headers.partition(";")[0].strip().lower()


def read_object(call: RequestInfo, validation: str) -> Document:
    """The object in the body, of the kind and version of the URL. Unknown fields are taken out; defaults are not set.

    A subresource may have a kind in another group, such as TokenRequest.

    Raises StatusError.
    """
    strict: list[str] = []
    document = bodykinds.checked(call, _decoded(call, strict if validation != "Ignore" else None))
    try:
        strict += _decoder(call)(document)
    except DocumentDecodeError as error:
        kind, version = _body_kind(call)
        raise errors.bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {error}') from error
    report_strict(call, strict, validation)
    return document


def read_plain(call: RequestInfo, kind: str, version: str) -> Document:
    """The body of an endpoint that takes a kind of its own. Raises StatusError."""
    document = _decoded(call, None)
    if not isinstance(document, dict):
        raise bodykinds.unrecognized(call, bodykinds.NOT_AN_OBJECT)
    if (document.get("kind") or kind, document.get("apiVersion") or version) != (kind, version):
        given = f"{document.get('apiVersion')}, Kind={document.get('kind')}"
        raise errors.bad_request(f"{given} cannot be handled as a {kind}")
    return document


def _decoded(call: RequestInfo, strict: list[str] | None) -> Any:
    """The body by its content type. Raises StatusError."""
    media = content_type(call.request.headers.get("content-type", "")) or JSON
    if media == protobuf.MEDIA_TYPE and not call.served.type.custom:
        try:
            return protobuf.decode(call.request.body)
        except protobuf.ProtobufError as error:
            raise errors.bad_request(str(error)) from error
    if media not in (JSON, YAML):
        raise errors.unsupported_media_type(ACCEPTED)
    try:
        return parse(call.request.body, yaml_allowed=media == YAML, strict=strict, struct=_struct(call))
    except UnreadableError as error:
        raise bodykinds.unrecognized(call, str(error)) from error


def report_strict(call: RequestInfo, strict: list[str], validation: str) -> None:
    """Warn of, or refuse, what strict decoding found."""
    if not strict or validation == "Ignore":
        return
    if validation == "Strict":
        kind, version = _body_kind(call)
        raise errors.bad_request(
            f'{kind} in version "{version}" cannot be handled as a {kind}: strict decoding error: {", ".join(strict)}'
        )
    warn(call, strict)


def _body_kind(call: RequestInfo) -> tuple[str, str]:
    """Kind and version of the body."""
    sub = call.served.subresources.get(call.subresource)
    return (sub.kind, sub.version) if sub is not None and sub.version else (call.kind, call.served.version)


def _struct(call: RequestInfo) -> str:
    """The Go struct of the body in the table of `gowriting`; empty for others."""
    sub = call.served.subresources.get(call.subresource)
    strategy = call.served.strategy
    if isinstance(strategy, BuiltInStrategy) and (sub is None or not sub.version):
        return strategy.struct
    return ""


def _decoder(call: RequestInfo) -> Callable[[Document], list[str]]:
    sub = call.served.subresources.get(call.subresource)
    return sub.structs if sub is not None and sub.structs is not None else call.served.decode


def parse(body: bytes, *, yaml_allowed: bool = False, strict: list[str] | None = None, struct: str = "") -> Any:
    """Decode JSON, or YAML where that is allowed.

    Args:
        body: of the request.
        yaml_allowed: whether it may be YAML.
        strict: gets what is said of keys that are there twice.
        struct: the Go struct that the real server decodes into; a custom resource has none.

    Raises:
        UnreadableError: it is neither.
    """
    if yaml_allowed:
        return _parse_yaml(body, strict)
    try:
        document = read_json(body)
    except ValueError as error:
        raise UnreadableError(f"couldn't get version/kind; json parse error: {error}") from error
    pairs = pairs_of(body) if strict is not None or struct else None
    if pairs is not None:
        if strict is not None:
            strict += doubled_fields(pairs)
        if struct:
            return merged(pairs, struct)
    return document


def _parse_yaml(body: bytes, strict: list[str] | None) -> Any:
    try:
        document, doubled = read_yaml(body)
    except (YAMLBodyError, UnicodeDecodeError) as error:
        raise UnreadableError(f"yaml: {error}") from error
    if doubled and strict is not None:
        strict.append(doubled_in_yaml(doubled))
    return document


def read_yaml(body: bytes) -> tuple[Any, list[str]]:
    """Decode YAML; also what is said of keys that are there twice. Most of it is JSON, which is read much faster.

    Raises:
        YAMLBodyError, UnicodeDecodeError: it is not YAML.
    """
    if body.lstrip()[:1] in (b"{", b"["):
        with suppress(ValueError):
            document = read_json(body)
            if pairs_of(body) is None:
                return document, []
    return yamlbodies.read_yaml(body.decode())


def doubled_in_yaml(doubled: list[str]) -> str:
    """The one error of strict decoding that names all doubled keys of a YAML text."""
    return _YAML_ERRORS + "".join(f"\n  {one}" for one in doubled)


def warn(call: RequestInfo, strict: list[str]) -> None:
    """Warn of what strict decoding found."""
    for text in strict:
        lines = text.removeprefix(_YAML_ERRORS)
        for line in [text] if lines == text else lines.strip().split("\n"):
            call.warn(line.strip())


def doubled_keys(body: bytes) -> list[str]:
    """What is said of keys that are there twice in a JSON patch: `duplicate field "spec.x"`."""
    pairs = pairs_of(body)
    return [] if pairs is None else doubled_fields(pairs)
