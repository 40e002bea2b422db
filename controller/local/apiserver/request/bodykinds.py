# SPDX-License-Identifier: Apache-2.0
"""Whether a body is an object of the kind and the version that the URL asks for.

The real server decodes a built-in kind into its Go struct: a body may leave kind and version out, and one of another
kind fails to convert. A custom resource is decoded as it is: it must say both, and a wrong kind is left to validation.
"""

from typing import Any

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.kinds.resources import ServedResource
from trainwright.controller.local.apiserver.request.call import RequestInfo
from trainwright.controller.local.apiserver.request.info import encode
from trainwright.controller.local.apiserver.schema.published import models_by_kind

_SHOWN_BYTES = 30
_SCHEME = 'scheme "pkg/runtime/scheme.go:111"'
"""Where the real server keeps its kinds, as its messages name it."""
NOT_AN_OBJECT = "couldn't get version/kind: the body is not an object"


def checked(call: RequestInfo, document: Any) -> Document:
    """The body as an object, with kind and version. Raises StatusError."""
    if document is None:
        document = {} if not call.served.type.custom else None
    if not isinstance(document, dict):
        if document is None:
            raise unrecognized(call, "Object 'Kind' is missing in 'null'")
        raise unrecognized(call, NOT_AN_OBJECT)
    problem = wrong_type_meta(document)
    if problem is not None:
        raise unrecognized(call, problem)
    if call.served.type.custom:
        _check_custom(call, document)
    else:
        _check_built_in(call, document)
    return document


def wrong_type_meta(document: Document) -> str | None:
    """What is wrong with the types of kind and version; None if nothing is."""
    for name in ("apiVersion", "kind"):
        value = document.get(name)
        if value is not None and not isinstance(value, str):
            return f"couldn't get version/kind: {name} is not a string"
    return None


def unrecognized(call: RequestInfo, why: str) -> errors.StatusError:
    """The answer for a body of which not even the kind can be told."""
    kind, _ = expected(call)
    return errors.bad_request(
        f"the object provided is unrecognized (must be of type {kind}): {why} ({_shown(call.request.body)})"
    )


def expected(call: RequestInfo) -> tuple[str, str]:
    """Kind and apiVersion of the body at an endpoint."""
    sub = call.served.subresources.get(call.subresource)
    if sub is None:
        return call.kind, call.served.api_version
    if not sub.version:
        return sub.kind, call.served.api_version
    return sub.kind, f"{sub.group}/{sub.version}" if sub.group else sub.version


def unregistered(kind: str, api_version: str) -> str:
    """What is wrong with a kind that is not known."""
    return f'no kind "{kind}" is registered for version "{api_version}" in {_SCHEME}'


def registered_problem(kind: str, api_version: str, wanted: str, wanted_version: str) -> str | None:
    """Why a document that says this kind and version is no object of the wanted kind; None if it is one."""
    if (kind, api_version) == (wanted, wanted_version):
        return None
    if (api_version, kind) not in models_by_kind():
        return unregistered(kind, api_version)
    if kind == wanted:
        return None
    number = api_version.rpartition("/")[2]
    return f"converting ({number}.{kind}) to ({_group(wanted_version)}.{wanted}): unknown conversion"


def _check_built_in(call: RequestInfo, document: Document) -> None:
    wanted, wanted_version = expected(call)
    kind = document["kind"] = document.get("kind") or wanted
    version = document["apiVersion"] = document.get("apiVersion") or wanted_version
    problem = registered_problem(kind, version, wanted, wanted_version)
    if problem is not None:
        number = version.rpartition("/")[2]
        raise errors.bad_request(f'{kind} in version "{number}" cannot be handled as a {wanted}: {problem}')
    _check_version(version, wanted_version)


def _check_custom(call: RequestInfo, document: Document) -> None:
    wanted, wanted_version = expected(call)
    if not document.get("kind"):
        text = call.request.body.decode(errors="replace")
        if not text.lstrip().startswith("{"):
            text = encode(document).decode()
        raise unrecognized(call, f"Object 'Kind' is missing in '{text}'")
    _check_version(document.get("apiVersion") or "", wanted_version)
    if document["kind"] != wanted and call.subresource:
        document["kind"] = wanted


def _check_version(given: str, wanted: str) -> None:
    if given != wanted:
        raise errors.bad_request(
            f"the API version in the data ({given}) does not match the expected API version ({wanted})"
        )


def go_type(served: ServedResource, *, of_list: bool = False) -> str:
    """The type of an object or of a list in the real server, as its messages name it."""
    if served.type.custom:
        return "*unstructured.UnstructuredList" if of_list else "*unstructured.Unstructured"
    return f"*{_group(served.api_version)}.{served.type.listed_as if of_list else served.type.kind}"


def _group(api_version: str) -> str:
    """The package of the real server's own structs of a group."""
    group = api_version.rpartition("/")[0]
    return group.partition(".")[0] if group else "core"


def _shown(body: bytes) -> str:
    if not body:
        return "<empty>"
    more = " ..." if len(body) > _SHOWN_BYTES else ""
    part = body[:_SHOWN_BYTES]
    return (part.decode(errors="replace") if body.startswith(b"{") else part.hex()) + more
