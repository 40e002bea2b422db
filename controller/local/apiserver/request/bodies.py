# SPDX-License-Identifier: Apache-2.0
"""Request bodies: JSON, YAML or protobuf in, a document of the right kind out, and what is odd about it."""

import json
from contextlib import suppress
from typing import Any

import yaml

from trainwright.api.manifest import ManifestError, check_depth, key, scalar
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.kinds.registry import Resource
from trainwright.controller.local.apiserver.request import protobuf
from trainwright.controller.local.apiserver.request.info import RequestInfo
from trainwright.controller.local.types.go_json import DocumentDecodeError
from trainwright.controller.local.types.model import models_by_kind
from trainwright.controller.local.values import json_text, read_json

_MERGE = "tag:yaml.org,2002:merge"
_MOST_VALUES = 1_000_000
"""Values of one YAML text, aliases written out: a small text can stand for an enormous document."""


class YAMLBodyError(ValueError):
    """A body is not YAML."""


def parse_yaml(text: str) -> tuple[Any, list[str]]:
    """The first document of a text, and lines such as `line 2: key "a" already set in map`. Raises YAMLBodyError."""
    try:
        check_depth(text)
        loader = yaml.CSafeLoader(text)
        try:
            node = loader.get_node() if loader.check_node() else None
        finally:
            loader.dispose()
        reading = _Reading()
        return (None if node is None else reading.value(node)), reading.duplicates
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark is not None else ""
        raise YAMLBodyError(f"{line}{error.problem}") from error
    except (ManifestError, yaml.YAMLError) as error:
        raise YAMLBodyError(str(error)) from error


class _Reading:
    """Reads the nodes of one document, which aliases may stand for more than once."""

    def __init__(self) -> None:
        self.duplicates: list[str] = []
        self._decoded = 0
        self._around: set[int] = set()

    def value(self, node: yaml.Node, into: Document | None = None) -> Any:
        """The value of a node; a mapping's keys are added to `into` if that is given."""
        identity = id(node)
        if identity in self._around:
            raise YAMLBodyError(f"line {node.start_mark.line + 1}: an anchor contains itself")
        self._decoded += 1
        if self._decoded > _MOST_VALUES:
            raise YAMLBodyError("document contains excessive aliasing")
        if isinstance(node, yaml.ScalarNode):
            return scalar(node)
        self._around.add(identity)
        if isinstance(node, yaml.SequenceNode):
            made: Any = [self.value(item) for item in node.value]
        else:
            made = {} if into is None else into
            for key_node, value_node in node.value:
                self._add(key_node, value_node, made)
        self._around.discard(identity)
        return made

    def _add(self, key_node: yaml.Node, value_node: yaml.Node, made: Document) -> None:
        if key_node.tag == _MERGE:
            # The keys of other mappings are set over those that are there; of several, the first one wins.
            sources = value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
            for source in reversed(sources):
                if not isinstance(source, yaml.MappingNode):
                    raise YAMLBodyError("map merge requires map or sequence of maps as the value")
                self.value(source, made)
            return
        name, value = key(key_node), self.value(value_node)
        if name in made:
            shown = json_text(scalar(key_node))
            self.duplicates.append(f"line {value_node.start_mark.line + 1}: key {shown} already set in map")
        made[name] = value


def read_yaml(body: bytes) -> tuple[Any, list[str]]:
    """Decode YAML; also warnings about duplicate keys. Most of it is JSON, read faster. Raises a ValueError."""
    if body.lstrip()[:1] in (b"{", b"["):
        with suppress(ValueError):
            document = read_json(body)
            if not duplicate_keys(body):
                return document, []
    return parse_yaml(body.decode())


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
JSON, YAML = "application/json", "application/yaml"
ACCEPTED = (JSON, YAML, protobuf.MEDIA_TYPE)
"""Media types of bodies."""


def content_type(header: str) -> str:
    """The media type of a header, without parameters."""
    return header.partition(";")[0].strip().lower()


def check_size(call: RequestInfo) -> None:
    """Raises StatusError where the body is too large."""
    if len(call.request.body) > LIMIT:
        raise errors.too_large(f"limit is {LIMIT}")


def read_object(call: RequestInfo, validation: str) -> Document:
    """The object in the body, of the kind and version of the URL. Unknown fields are taken out; defaults are not set.

    A subresource may have a kind of its own, such as TokenRequest. The real server decodes a built-in kind into its Go
    struct: a body may leave kind and version out, and one of another kind fails to convert. A custom resource is
    decoded as it is: it must say both, and a wrong kind is left to validation.

    Raises StatusError.
    """
    strict: list[str] = []
    built_in = bool(call.resource.body_model(call.subresource))
    document = decoded(call, strict if validation != "Ignore" else None)
    if document is None and built_in:
        document = {}
    if (problem := wrong_type_meta(document)) is not None:
        raise _unrecognized(call, problem)
    wanted, version = expected(call)
    if built_in:
        kind = document["kind"] = document.get("kind") or wanted
        said = document["apiVersion"] = document.get("apiVersion") or version
        problem = None if (kind, said) == (wanted, version) else kind_problem(kind, said, wanted)
        if problem is not None:
            raise _cannot_be_handled(call, problem)
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
    if validation == "Strict" and strict:
        raise _cannot_be_handled(call, f"strict decoding error: {', '.join(strict)}")
    if validation != "Ignore":
        for text in strict:
            call.warn(text)
    made: Document = document
    return made


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
    if media not in (JSON, YAML):
        raise errors.unsupported_media_type(ACCEPTED)
    try:
        document, duplicates = read_yaml(body) if media == YAML else (read_json(body), None)
    except ValueError as error:
        raise _unrecognized(call, f"{media.rpartition('/')[2]}: {error}") from error
    if strict is not None:
        strict += duplicate_keys(body) if duplicates is None else duplicates
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
    """Kind and apiVersion of the body at an endpoint."""
    sub = call.resource.subresources.get(call.subresource)
    if sub is None:
        return call.kind, call.resource.api_version
    return sub.kind, call.resource.api_version_of(sub)


def kind_problem(kind: str, api_version: str, wanted: str) -> str | None:
    """Why a document that says this kind and version is no object of the wanted kind; None if it may be one."""
    if (api_version, kind) not in models_by_kind():
        return f'there is no kind "{kind}" in version "{api_version}"'
    return None if kind == wanted else f"{kind} cannot be converted to {wanted}"


def _unrecognized(call: RequestInfo, why: str) -> errors.StatusError:
    """The answer for a body of which not even the kind can be told."""
    return errors.bad_request(f"the object provided is unrecognized (must be of type {expected(call)[0]}): {why}")


def _cannot_be_handled(call: RequestInfo, why: str) -> errors.StatusError:
    kind, version = expected(call)
    return errors.bad_request(f'{kind} in version "{version.rpartition("/")[2]}" cannot be handled as a {kind}: {why}')


def go_type(served: Resource, *, of_list: bool = False) -> str:
    """The type of an object or of a list in the real server, as its messages of 406 name it."""
    if served.custom:
        return "*unstructured.UnstructuredList" if of_list else "*unstructured.Unstructured"
    package = served.group.partition(".")[0] or "core"
    return f"*{package}.{served.listed_as if of_list else served.kind}"
