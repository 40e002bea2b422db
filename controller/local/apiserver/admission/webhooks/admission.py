# SPDX-License-Identifier: Apache-2.0
"""Webhooks as a part of admission: the mutating ones in turn, the validating ones all at once."""

import asyncio
import base64
import logging
from typing import NamedTuple

import msgspec

from trainwright.api.objects import Document
from trainwright.api.surroundings import new_uid
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.admission.webhooks.calling import Caller, CallError
from trainwright.controller.local.apiserver.admission.webhooks.conversion import Conversions
from trainwright.controller.local.apiserver.admission.webhooks.matching import (
    CONFIGURATIONS,
    GROUP,
    Hook,
    Invocation,
    body_kind,
    has_own_object,
    is_exempt,
)
from trainwright.controller.local.apiserver.kinds.registry import Resource, ResourceRegistry
from trainwright.controller.local.apiserver.merge.errors import PatchError
from trainwright.controller.local.apiserver.merge.patch import json_patch
from trainwright.controller.local.apiserver.request.call import Operation, RequestInfo
from trainwright.controller.local.apiserver.request.info import WriteQuery
from trainwright.controller.local.apiserver.store import ObjectName, ObjectStore
from trainwright.controller.local.types.go_json import DocumentDecodeError
from trainwright.controller.local.values import read_json

log = logging.getLogger(__name__)

_MUTATING, _VALIDATING = (f"{plural}.{GROUP}" for plural in CONFIGURATIONS)
_encode = msgspec.json.Encoder(order="sorted").encode
"""As Go writes maps: webhooks see the order of the keys of a ConfigMap."""
_VERSIONS = ("v1", "v1beta1")
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class _Known(NamedTuple):
    """The webhooks of a collection as of a version of it, all and by group and resource."""

    version: int
    hooks: tuple[Hook, ...]
    by_resource: dict[tuple[str, str], tuple[Hook, ...]]


class WebhookAdmission:
    """Asks the webhooks that are registered in the store."""

    def __init__(
        self, store: ObjectStore, registry: ResourceRegistry, caller: Caller, conversions: Conversions
    ) -> None:
        self._conversions = conversions
        self._store = store
        self._registry = registry
        self._caller = caller
        self._hooks: dict[str, _Known] = {}

    async def mutate(
        self, call: RequestInfo, operation: Operation, new: Document | None, old: Document | None, options: WriteQuery
    ) -> Document | None:
        """Ask the mutating webhooks. Raises StatusError."""
        hooks = self._registered(_MUTATING, call, mutating=True)
        if not hooks or is_exempt(call):
            return new
        asked: list[tuple[Hook, int]] = []
        changes = 0
        for hook in hooks:
            invocation = self._invocation(hook, call, operation, new, old)
            if invocation is None:
                continue
            made = await self._mutated(invocation, call, operation, new, old, options)
            if made is not None and made != new:
                changes, new = changes + 1, made
            asked.append((hook, changes))
        for hook, seen in asked:
            # Once more for those who want it, if somebody changed the object after them.
            if hook.is_asked_again and changes > seen:
                invocation = self._invocation(hook, call, operation, new, old)
                if invocation is not None:
                    made = await self._mutated(invocation, call, operation, new, old, options)
                    new = made if made is not None else new
        return new

    async def validate(
        self, call: RequestInfo, operation: Operation, new: Document | None, old: Document | None, options: WriteQuery
    ) -> None:
        """Ask the validating webhooks. Raises StatusError."""
        hooks = self._registered(_VALIDATING, call, mutating=False)
        if not hooks or is_exempt(call):
            return
        relevant = [
            invocation
            for hook in hooks
            if (invocation := self._invocation(hook, call, operation, new, old)) is not None
        ]
        answers = await asyncio.gather(
            *(self._asked(one, call, operation, new, old, options) for one in relevant), return_exceptions=True
        )
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer

    # ------------------------------------------------------------------ who is asked

    def _registered(self, collection: str, call: RequestInfo, *, mutating: bool) -> tuple[Hook, ...]:
        """The webhooks whose rules name the resource of a call: most calls are about one that none of them names."""
        stored = self._store.collection(collection)
        if not stored.by_name:
            return ()
        version = stored.changed
        known = self._hooks.get(collection)
        if known is None or known.version != version:
            hooks = tuple(
                Hook(one.name.name, document, mutating=mutating)
                for one in stored.listed()
                for document in one.document().get("webhooks") or ()
            )
            known = self._hooks[collection] = _Known(version, hooks, {})
        resource = call.group, call.plural
        if resource not in known.by_resource:
            known.by_resource[resource] = tuple(hook for hook in known.hooks if hook.names(*resource))
        return known.by_resource[resource]

    def _invocation(
        self, hook: Hook, call: RequestInfo, operation: Operation, new: Document | None, old: Document | None
    ) -> Invocation | None:
        def namespace() -> dict[str, str] | None:
            found = self._store.get("namespaces", ObjectName("", call.namespace))
            return None if found is None else dict(found.labels)

        return hook.invocation(call, operation, new, old, registry=self._registry, namespace=namespace)

    # ------------------------------------------------------------------ asking

    async def _mutated(
        self,
        invocation: Invocation,
        call: RequestInfo,
        operation: Operation,
        new: Document | None,
        old: Document | None,
        options: WriteQuery,
    ) -> Document | None:
        response = await self._asked(invocation, call, operation, new, old, options)
        if response is None or not response.get("patch"):
            return None
        name = invocation.hook.name
        if new is None:
            raise errors.internal(
                f'admission webhook "{name}" attempted to modify the object, which is not supported for this operation'
            )
        try:
            own_object = has_own_object(call)
            shown = new if own_object else await self._conversions.served(invocation.served, new)
            patched = json_patch(shown, base64.b64decode(response["patch"]))
        except (PatchError, ValueError) as error:
            cause = getattr(error, "cause", None) or str(error)
            raise errors.internal(str(cause)) from error
        if own_object:
            own: Document = patched
            return own
        made = await self._conversions.served(call.resource, patched)
        try:
            call.resource.decode(made)
        except DocumentDecodeError as error:
            raise errors.internal(str(error)) from error
        call.resource.strategy.default(made)
        return made

    async def _asked(
        self,
        invocation: Invocation,
        call: RequestInfo,
        operation: Operation,
        new: Document | None,
        old: Document | None,
        options: WriteQuery,
    ) -> Document | None:
        """The response that allows the request; None if the webhook failed and that is to be ignored."""
        hook = invocation.hook
        if options.dry_run and hook.has_side_effects:
            raise errors.bad_request(f'admission webhook "{hook.name}" does not support dry run')
        try:
            uid = new_uid()
            shown = new
            if new is not None and not has_own_object(call):
                shown = await self._conversions.served(invocation.served, new)
            before = old if old is None else await self._conversions.served(invocation.served, old)
            review = _review(uid, invocation, call, operation, shown, before, options)
            try:
                body = await self._caller.send(hook.document["clientConfig"], _encode(review), hook.seconds)
            except TimeoutError as error:
                raise CallError("context deadline exceeded") from error
            except CallError as error:
                raise CallError(f"failed to call webhook: {error}") from error
            response = _response(body, uid, review["apiVersion"], mutating=hook.mutating)
        except CallError as error:
            if hook.ignores_failures:
                log.warning("webhook %s failed and is ignored: %s", hook.name, error)
                return None
            raise errors.internal(f'failed calling webhook "{hook.name}": {error}') from error
        for text in response.get("warnings") or ():
            call.warn(text)
        if not response.get("allowed"):
            raise _refusal(hook.name, response.get("status"))
        return response


def _review(
    uid: str,
    invocation: Invocation,
    call: RequestInfo,
    operation: Operation,
    new: Document | None,
    old: Document | None,
    options: WriteQuery,
) -> Document:
    served, group = invocation.served, call.group
    version = next(
        (name for name in invocation.hook.document.get("admissionReviewVersions") or () if name in _VERSIONS), None
    )
    if version is None:
        raise CallError(
            "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"
        )
    name = call.name
    namespace = call.name if (group, call.plural) == ("", "namespaces") else call.namespace
    request: Document = {
        "uid": uid,
        "kind": _kind(call, served),
        "resource": {"group": group, "version": served.version, "resource": call.plural},
        "requestKind": _kind(call, call.resource),
        "requestResource": {"group": group, "version": call.resource.version, "resource": call.plural},
        "operation": operation,
        "userInfo": {"username": call.user.name, "groups": list(call.user.groups)},
        "object": new,
        "oldObject": old,
        "dryRun": options.dry_run,
        "options": options.document(_OPTIONS[operation]) if operation in _OPTIONS else None,
    }
    for field, value in (
        ("subResource", call.subresource),
        ("requestSubResource", call.subresource),
        ("name", name),
        ("namespace", namespace),
    ):
        if value:
            request[field] = value
    if call.user.uid:
        request["userInfo"]["uid"] = call.user.uid
    if call.user.extra:
        request["userInfo"]["extra"] = {key: list(values) for key, values in call.user.extra.items()}
    return {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{version}", "request": request}


def _kind(call: RequestInfo, served: Resource) -> Document:
    """The kind that is asked about, in a version of the resource if it is of its group."""
    group, version, kind = body_kind(call)
    return {"group": group, "version": served.version if group == call.group else version, "kind": kind}


def _response(body: bytes, uid: str, version: str, *, mutating: bool) -> Document:
    try:
        review = read_json(body)
    except ValueError as error:
        raise CallError(
            f"failed to call webhook: couldn't get version/kind; json parse error: {error}"
            if body
            else "failed to call webhook: 0-length response"
        ) from error
    if not isinstance(review, dict):
        raise CallError("failed to call webhook: the answer is not an AdmissionReview")
    response = review.get("response")
    invalid = "received invalid webhook response: "
    if not isinstance(response, dict):
        raise CallError(f"{invalid}webhook response was absent")
    if version.endswith("/v1"):
        if response.get("uid") != uid:
            raise CallError(f'{invalid}expected response.uid="{uid}", got "{response.get("uid") or ""}"')
        given = (review.get("apiVersion"), review.get("kind"))
        if given != (version, "AdmissionReview"):
            raise CallError(
                f"{invalid}expected webhook response of {version}, Kind=AdmissionReview, "
                f"got {given[0]}, Kind={given[1]}"
            )
        _check_patch(response, invalid, mutating=mutating)
    return response


def _check_patch(response: Document, invalid: str, *, mutating: bool) -> None:
    patch, kind = response.get("patch"), response.get("patchType")
    if not mutating:
        for field, value in (("patch", patch), ("patchType", kind)):
            if value:
                raise CallError(f"{invalid}validating webhook may not return response.{field}")
        return
    if patch and not kind:
        raise CallError(f"{invalid}webhook returned response.patch but not response.patchType")
    if kind and not patch:
        raise CallError(f"{invalid}webhook returned response.patchType but not response.patch")


def _refusal(name: str, result: Document | None) -> errors.StatusError:
    result = result or {}
    denied = f'admission webhook "{name}" denied the request'
    code = int(result.get("code") or 0)
    if result.get("message"):
        message = f"{denied}: {result['message']}"
    elif result.get("reason"):
        message = f"{denied}: {result['reason']}"
    else:
        message = f"{denied} without explanation"
    return errors.StatusError(max(code, 400), str(result.get("reason") or ""), message, result.get("details"))
