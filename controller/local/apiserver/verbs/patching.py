# SPDX-License-Identifier: Apache-2.0
"""Patches of all four types, as transforms of the live object."""

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.kinds import metadata
from trainwright.controller.local.apiserver.merge.apply import (
    ApplyError,
    BadRequestError,
    ConflictError,
)
from trainwright.controller.local.apiserver.merge.patch import (
    PatchError,
    json_patch,
    merge_patch,
    operation_count,
    read_merge_patch,
    read_strategic_patch,
    strategic_merge_patch,
)
from trainwright.controller.local.apiserver.request import bodies, bodykinds
from trainwright.controller.local.apiserver.request.call import RequestInfo
from trainwright.controller.local.apiserver.request.info import WriteQuery
from trainwright.controller.local.apiserver.request.yamlbodies import YAMLBodyError
from trainwright.controller.local.apiserver.schema import DocumentDecodeError
from trainwright.controller.local.apiserver.schema.errors import invalid_unshown
from trainwright.controller.local.apiserver.schema.metadata import decode_metadata
from trainwright.controller.local.apiserver.schema.published import published_models
from trainwright.controller.local.apiserver.verbs.writes import Transform, track

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_CBOR = "application/apply-patch+cbor"
OPERATIONS = 10_000
"""Of a JSON patch at most."""


def accepted(call: RequestInfo) -> tuple[str, ...]:
    """The types of patches that a kind takes."""
    strategic = () if call.served.type.custom else (STRATEGIC_PATCH,)
    return (JSON_PATCH, MERGE_PATCH, *strategic, APPLY_PATCH)


def transform_of(call: RequestInfo, media: str, options: WriteQuery) -> Transform:
    """What makes the new object from the live one. Raises StatusError for a patch that nothing can be made of."""
    if media == APPLY_PATCH:

        async def apply(live: Document | None) -> Document:
            document, doubled = _apply_document(call)
            made = _applied(call, live, document, options)
            _tell_doubled(call, doubled, options)
            return made

        return apply

    async def patch(live: Document | None) -> Document:
        if live is None:
            raise call.not_found()
        if media == JSON_PATCH:
            _check_count(call)
        return _patched(call, live, media, options)

    return patch


def _check_count(call: RequestInfo) -> None:
    try:
        count = operation_count(call.request.body)
    except PatchError as error:
        raise _status(error) from error
    if count > OPERATIONS:
        raise errors.too_large(f"The allowed maximum operations in a JSON patch is {OPERATIONS}, got {count}")


def _patched(call: RequestInfo, live: Document, media: str, options: WriteQuery) -> Document:
    body, strict = call.request.body, list[str]()
    try:
        if media == JSON_PATCH:
            made = json_patch(live, body)
        elif media == MERGE_PATCH:
            made = merge_patch(live, read_merge_patch(body))
        else:
            made = strategic_merge_patch(live, read_strategic_patch(body), published_models(), call.served.model)
        if options.validation != "Ignore" and media != JSON_PATCH:
            strict = bodies.doubled_keys(body)
        if not isinstance(made, dict):
            raise _rejected("the result is not an object")
        _check_kind(call, made)
        try:
            strict += call.served.decode(made)
        except DocumentDecodeError as error:
            raise _rejected(str(error)) from error
        if options.validation == "Ignore":
            strict = []
        if strict and options.validation == "Strict":
            raise _rejected(f"strict decoding error: {', '.join(strict)}")
    except PatchError as error:
        raise _status(error) from error
    for warning in strict:
        call.warn(warning)
    call.served.strategy.default(made)
    _check_identity(call, made)
    return track(call, live, made, options)


def _check_kind(call: RequestInfo, made: Document) -> None:
    """Raises StatusError where a patch made an object of another kind; custom resources are validated later."""
    kind, version = bodykinds.expected(call)
    if call.served.type.custom:
        made["kind"] = made.get("kind") or ""
        made["apiVersion"] = made.get("apiVersion") or ""
        return
    made["kind"], made["apiVersion"] = made.get("kind") or kind, made.get("apiVersion") or version
    problem = bodykinds.registered_problem(str(made["kind"]), str(made["apiVersion"]), kind, version)
    if problem is not None:
        raise _rejected(problem)


def _apply_document(call: RequestInfo) -> tuple[Document, list[str]]:
    """The document, and what is said of keys that it has twice. Raises StatusError."""
    try:
        document, doubled = bodies.read_yaml(call.request.body)
    except (YAMLBodyError, UnicodeDecodeError) as error:
        raise errors.bad_request(f"error decoding YAML: error converting YAML to JSON: yaml: {error}") from error
    if document is None:
        return {}, doubled
    if not isinstance(document, dict):
        raise errors.bad_request("error decoding YAML: expected an object")
    return document, doubled


def _tell_doubled(call: RequestInfo, doubled: list[str], options: WriteQuery) -> None:
    """Warn of keys that are there twice, or refuse them. Raises StatusError."""
    if not doubled or options.validation == "Ignore":
        return
    text = bodies.doubled_in_yaml(doubled)
    if options.validation == "Strict":
        raise errors.bad_request(f"error strict decoding YAML: error converting YAML to JSON: {text}")
    bodies.warn(call, [text])


def _applied(call: RequestInfo, live: Document | None, document: Document, options: WriteQuery) -> Document:
    manager = call.served.managers[call.subresource]
    try:
        made = manager.apply(live, document, options.manager, force=options.force, now=call.now)
    except ConflictError as error:
        causes = [(cause.field, cause.message) for cause in error.causes]
        raise errors.apply_conflict(str(error), causes) from error
    except BadRequestError as error:
        raise errors.bad_request(str(error)) from error
    except ApplyError as error:
        raise errors.plain_internal(str(error)) from error
    metadata.metadata_of(made)
    try:
        if call.served.type.custom:
            # Only a decoded body loses its nulls, and what is applied has no unknown fields.
            made["metadata"], _ = decode_metadata(made["metadata"])
        else:
            call.served.decode(made)
    except DocumentDecodeError as error:
        raise errors.plain_internal(str(error)) from error
    call.served.strategy.default(made)
    uid = made["metadata"].get("uid")
    if live is None and uid:
        raise call.conflict(f"uid mismatch: the provided object specified uid {uid}, and no existing object was found")
    _check_identity(call, made)
    return made


def _check_identity(call: RequestInfo, made: Document) -> None:
    meta = metadata.metadata_of(made)
    metadata.set_namespace(meta, call.namespace)
    metadata.check_name(meta, call.name)


def _status(error: PatchError) -> errors.StatusError:
    return errors.StatusError(error.code, error.reason, str(error), error.details)


def _rejected(problem: str) -> errors.StatusError:
    """422: what a patch made is no object of the kind. Kubernetes names neither kind nor object here."""
    return errors.invalid("", "", "", [invalid_unshown("patch", problem)])
