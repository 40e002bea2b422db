# SPDX-License-Identifier: Apache-2.0
"""Webhooks as a part of admission: the mutating ones in turn, the validating ones all at once.

https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
"""

import asyncio
import base64
import logging
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from trainwright.api.objects import Document
from trainwright.api.surroundings import new_uid
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.admission.calling import CallError, WebhookCaller
from trainwright.controller.local.apiserver.admission.conversion import Conversions
from trainwright.controller.local.apiserver.admission.request import (
    GROUP,
    AdmissionRequest,
    MatchScope,
    conditions_hold,
    is_exempt,
)
from trainwright.controller.local.apiserver.kinds.registry import Resource, ResourceRegistry
from trainwright.controller.local.apiserver.merge.patch import json_patch
from trainwright.controller.local.apiserver.store import ObjectStore
from trainwright.controller.local.cel.expression import EvaluationError
from trainwright.controller.local.values import read_json

log = logging.getLogger(__name__)

_encode = msgspec.json.Encoder(order="sorted").encode
"""As Go writes maps: webhooks see the order of the keys of a ConfigMap."""


class Hook:
    """One webhook of a configuration."""

    def __init__(self, document: Document, *, mutating: bool) -> None:
        self.document = document
        self.mutating = mutating
        self.name: str = document["name"]
        self.scope = MatchScope(document, document.get("rules") or ())
        self.seconds = float(document.get("timeoutSeconds") or 10)
        self.ignores_failures = document.get("failurePolicy") == "Ignore"
        """Whether a request passes if this webhook cannot be asked."""
        self.has_side_effects = document.get("sideEffects") not in ("None", "NoneOnDryRun")
        """Whether it cannot be asked in a dry run."""
        self.is_asked_again = document.get("reinvocationPolicy") == "IfNeeded"
        """Whether it is asked again after others changed the object."""
        accepted = document.get("admissionReviewVersions") or ()
        self.version = next((f"admission.k8s.io/{one}" for one in accepted if one in ("v1", "v1beta1")), "")
        """Of the reviews; empty if it takes none that this server knows."""


class _Known(NamedTuple):
    """The webhooks of a collection as of a version of it, all and by group and resource."""

    version: int
    hooks: tuple[Hook, ...]
    by_resource: dict[tuple[str, str], tuple[Hook, ...]]


@dataclass(eq=False, slots=True)
class Webhooks:
    """Asks the webhooks that are registered in the store; `mutate` and `validate` are plugins of the chain."""

    _store: ObjectStore
    _registry: ResourceRegistry
    _caller: WebhookCaller
    _conversions: Conversions
    _hooks: dict[str, _Known] = field(default_factory=dict)

    async def mutate(self, request: AdmissionRequest) -> None:
        """Ask the mutating webhooks. Raises StatusError."""
        asked: list[tuple[Hook, int]] = []
        changes = 0
        for hook in self._registered(request, mutating=True):
            if (served := await self._concerned(hook, request)) is not None:
                changes += await self._change(hook, served, request)
                asked.append((hook, changes))
        for hook, seen in asked:
            # Once more for those who want it, if another one changed the object after them.
            if hook.is_asked_again and changes > seen and (served := await self._concerned(hook, request)) is not None:
                await self._change(hook, served, request)

    async def validate(self, request: AdmissionRequest) -> None:
        """Ask the validating webhooks. Raises StatusError."""
        hooks = self._registered(request, mutating=False)
        relevant = [(hook, served) for hook in hooks if (served := await self._concerned(hook, request)) is not None]
        if not relevant:
            return
        answers = await asyncio.gather(*(self._asked(*one, request) for one in relevant), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer

    # ------------------------------------------------------------------ who is asked

    def _registered(self, request: AdmissionRequest, *, mutating: bool) -> tuple[Hook, ...]:
        """The webhooks whose rules name the resource of a request: most are about one that none of them names."""
        collection = f"{'mutating' if mutating else 'validating'}webhookconfigurations.{GROUP}"
        stored = self._store.collection(collection)
        if not stored.by_name or is_exempt(request):
            return ()
        known = self._hooks.get(collection)
        if known is None or known.version != stored.changed:
            hooks = tuple(
                Hook(document, mutating=mutating)
                for one in stored.listed()
                for document in one.document().get("webhooks") or ()
            )
            known = self._hooks[collection] = _Known(stored.changed, hooks, {})
        resource = request.call.group, request.call.plural
        if resource not in known.by_resource:
            known.by_resource[resource] = tuple(hook for hook in known.hooks if hook.scope.names(*resource))
        return known.by_resource[resource]

    async def _concerned(self, hook: Hook, request: AdmissionRequest) -> Resource | None:
        """In which version of the resource a webhook is asked; None if it is not. Raises StatusError."""
        served = hook.scope.served(request, self._registry, self._store)
        conditions = hook.document.get("matchConditions") or ()
        if served is None or not conditions:
            return served
        try:
            facts = {**await self._conversions.objects(request, served), "request": request.review(served)}
            holds = conditions_hold(conditions, facts)
        except EvaluationError as error:
            if hook.ignores_failures:
                return None
            call = request.call
            raise errors.forbidden(call.group, call.plural, call.name, str(error)) from error
        return served if holds else None

    # ------------------------------------------------------------------ asking

    async def _change(self, hook: Hook, served: Resource, request: AdmissionRequest) -> bool:
        """Apply the patch of a mutating webhook. Returns whether it changed the object."""
        response = await self._asked(hook, served, request)
        if response is None or not response.get("patch"):
            return False
        if request.new is None:
            raise errors.internal(
                f'admission webhook "{hook.name}" attempted to modify the object, which is not supported for this '
                "operation"
            )
        shown = await self._conversions.objects(request, served)
        try:
            made: Document = json_patch(shown["object"], base64.b64decode(response["patch"]))
        except (errors.StatusError, ValueError) as error:
            raise errors.internal(str(getattr(error, "cause", None) or error)) from error
        if not request.has_own_object:
            made = await self._conversions.served(request.call.resource, made)
            try:
                made = request.decoded(made)
            except ValueError as error:
                raise errors.internal(str(error)) from error
        changed = made != request.new
        if changed:
            request.new = made
        return changed

    async def _asked(self, hook: Hook, served: Resource, request: AdmissionRequest) -> Document | None:
        """The response that allows the request; None if the webhook failed and that is to be ignored."""
        if request.options.dry_run and hook.has_side_effects:
            raise errors.bad_request(f'admission webhook "{hook.name}" does not support dry run')
        try:
            uid = new_uid()
            content = {
                "uid": uid,
                "options": None,
                **request.review(served),
                **await self._conversions.objects(request, served),
            }
            if not hook.version:
                raise CallError("it does not accept AdmissionReviews of v1 or v1beta1")
            review = {"kind": "AdmissionReview", "apiVersion": hook.version, "request": content}
            try:
                body = await self._caller.send(hook.document["clientConfig"], _encode(review), hook.seconds)
            except TimeoutError as error:
                raise CallError("context deadline exceeded") from error
            except CallError as error:
                raise CallError(f"failed to call webhook: {error}") from error
            response = _response(body, uid, hook)
        except CallError as error:
            if hook.ignores_failures:
                log.warning("webhook %s failed and is ignored: %s", hook.name, error)
                return None
            raise errors.internal(f'failed calling webhook "{hook.name}": {error}') from error
        for text in response.get("warnings") or ():
            request.call.warn(text)
        if not response.get("allowed"):
            raise _refusal(hook.name, response.get("status"))
        return response


def _response(body: bytes, uid: str, hook: Hook) -> Document:
    """The response of a review. Raises CallError."""
    try:
        review = read_json(body)
    except ValueError as error:
        raise CallError(f"failed to call webhook: couldn't get version/kind; json parse error: {error}") from error
    response = review.get("response") if isinstance(review, dict) else None
    problem = ""
    if not isinstance(response, dict):
        raise CallError("received invalid webhook response: webhook response was absent")
    if hook.version.endswith("/v1"):
        kind = review.get("apiVersion"), review.get("kind")
        patches = {bool(response.get(field)) for field in ("patch", "patchType")}
        if response.get("uid") != uid:
            problem = f'expected response.uid="{uid}", got "{response.get("uid") or ""}"'
        elif kind != (hook.version, "AdmissionReview"):
            problem = f"expected {hook.version}, Kind=AdmissionReview, got {kind[0]}, Kind={kind[1]}"
        elif len(patches) > 1 and hook.mutating:
            problem = "webhook returned only one of response.patch and response.patchType"
        elif True in patches and not hook.mutating:
            problem = "validating webhook may not return response.patch or response.patchType"
    if problem:
        raise CallError(f"received invalid webhook response: {problem}")
    return response


def _refusal(name: str, result: Document | None) -> errors.StatusError:
    result = result or {}
    why = result.get("message") or result.get("reason")
    message = f'admission webhook "{name}" denied the request{f": {why}" if why else " without explanation"}'
    code, reason = max(int(result.get("code") or 0), 400), str(result.get("reason") or "")
    return errors.StatusError(code, reason, message, result.get("details"))
