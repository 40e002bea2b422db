# SPDX-License-Identifier: Apache-2.0
"""Policies as a part of admission: mutating ones before the mutating webhooks, validating ones after all changes.

A mutating policy that is to be invoked again is so after other policies, not after webhooks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from trainwright.api.objects import Document
from trainwright.api.validation.cel import EvaluationError
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.admission.policies.evaluation import PolicyFailure, failures, mutated
from trainwright.controller.local.apiserver.admission.policies.parameters import ParameterError, parameters
from trainwright.controller.local.apiserver.admission.webhooks.matching import (
    GROUP,
    MatchScope,
    body_kind,
    has_own_object,
    is_exempt,
)
from trainwright.controller.local.apiserver.kinds.registry import Resource, ResourceRegistry
from trainwright.controller.local.apiserver.merge.errors import InternalError, PatchError
from trainwright.controller.local.apiserver.merge.fieldmanager import FieldManager
from trainwright.controller.local.apiserver.merge.patch import json_patch
from trainwright.controller.local.apiserver.request.call import Operation, RequestInfo
from trainwright.controller.local.apiserver.request.info import WriteQuery, user_info
from trainwright.controller.local.apiserver.store import ObjectName, ObjectStore
from trainwright.controller.local.types.go_json import DocumentDecodeError

_VALIDATING = f"validatingadmissionpolicies.{GROUP}", f"validatingadmissionpolicybindings.{GROUP}"
_MUTATING = f"mutatingadmissionpolicies.{GROUP}", f"mutatingadmissionpolicybindings.{GROUP}"
_CODES = {"Forbidden": 403, "RequestEntityTooLarge": 413}
_INVALID = 422
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}
_NOT_SHOWN = ("managedFields", "ownerReferences")


@dataclass(frozen=True, slots=True)
class _Binding:
    name: str
    spec: Document
    scope: MatchScope | None


@dataclass(frozen=True, slots=True)
class _Policy:
    name: str
    spec: Document
    scope: MatchScope
    bindings: tuple[_Binding, ...]


class Policies:
    """Evaluates the policies that are stored; an `Admission`."""

    def __init__(self, store: ObjectStore, registry: ResourceRegistry) -> None:
        self._store = store
        self._registry = registry
        self._known: dict[str, tuple[tuple[int, int], tuple[_Policy, ...]]] = {}

    async def mutate(
        self, call: RequestInfo, operation: Operation, new: Document | None, old: Document | None, options: WriteQuery
    ) -> Document | None:
        """What the mutating policies make of the object. Raises StatusError."""
        policies = self._policies(*_MUTATING)
        if new is None or not policies or is_exempt(call) or has_own_object(call):
            return new
        changes = 0
        seen: dict[str, int] = {}
        """By policy: how many changes there were when its first mutation was done."""
        for policy in policies:
            for made in self._mutated(policy, call, operation, new, old, options):
                changes, new = changes + (made != new), made
                seen.setdefault(policy.name, changes)
        for policy in policies:
            if policy.spec.get("reinvocationPolicy") == "IfNeeded" and changes > seen.get(policy.name, changes):
                *_, new = new, *self._mutated(policy, call, operation, new, old, options)
        return new

    def _mutated(
        self,
        policy: _Policy,
        call: RequestInfo,
        operation: Operation,
        new: Document,
        old: Document | None,
        options: WriteQuery,
    ) -> Iterator[Document]:
        """The object after each mutation."""
        served = self._concerned(policy.scope, call, operation, new, old)
        if served is None:
            return
        for binding in policy.bindings:
            if binding.scope is not None and self._concerned(binding.scope, call, operation, new, old) is None:
                continue
            patch = partial(_patched, served.managers.get(call.subresource))
            try:
                for parameter in self._parameters(policy, binding, call):
                    facts = self._facts(served, call, operation, new, old, options)
                    for step in mutated(policy.spec, {**facts, "params": parameter}, patch):
                        made = call.resource.named(step)
                        call.resource.decode(made)
                        call.resource.strategy.default(made)
                        new = made
                        yield made
            except (ParameterError, EvaluationError, DocumentDecodeError) as error:
                if policy.spec.get("failurePolicy") == "Ignore":
                    continue
                is_missing = isinstance(error, ParameterError)
                told = f"failed to configure binding: {error}" if is_missing else str(error)
                refused = errors.forbidden(call.group, call.plural, _name(call, new), "")
                refused.message = f"policy '{policy.name}' with binding '{binding.name}' denied request: {told}"
                refused.reason = "Forbidden" if is_missing else "Invalid"
                refused.details = {**(refused.details or {}), "causes": [{"message": refused.message}]}
                raise refused from error

    def _parameters(self, policy: _Policy, binding: _Binding, call: RequestInfo) -> Sequence[Document | None]:
        kind, reference = policy.spec.get("paramKind"), binding.spec.get("paramRef")
        return parameters(kind, reference, call.namespace, self._store, self._registry)

    async def validate(
        self, call: RequestInfo, operation: Operation, new: Document | None, old: Document | None, options: WriteQuery
    ) -> None:
        """Refuse what a policy refuses, with the first failure; warn of what is only to be warned of.

        Raises StatusError.
        """
        policies = self._policies(*_VALIDATING)
        if not policies or is_exempt(call):
            return
        denials = [
            denial for policy in policies for denial in self._denials(policy, call, operation, new, old, options)
        ]
        if denials:
            message, reason = denials[0]
            error = errors.forbidden(call.group, call.plural, _name(call, new), message)
            error.reason = reason or "Invalid"
            error.code = _CODES.get(error.reason, _INVALID)
            error.details = {**(error.details or {}), "causes": [{"message": message}]}
            raise error

    def _policies(self, policies_in: str, bindings_in: str) -> tuple[_Policy, ...]:
        """Those that have a binding, compiled once per change."""
        policies, bindings = self._store.collection(policies_in), self._store.collection(bindings_in)
        if not policies.by_name or not bindings.by_name:
            return ()
        version = (policies.changed, bindings.changed)
        known = self._known.get(policies_in)
        if known is None or known[0] != version:
            bound: dict[str, list[_Binding]] = {}
            for one in bindings.listed():
                spec = one.document()["spec"]
                scope = spec.get("matchResources")
                made = _Binding(one.name.name, spec, _scope(scope) if scope is not None else None)
                bound.setdefault(spec["policyName"], []).append(made)
            known = self._known[policies_in] = (version, tuple(self._compiled(policies_in, bound)))
        return known[1]

    def _compiled(self, policies_in: str, bound: dict[str, list[_Binding]]) -> Iterator[_Policy]:
        for one in self._store.collection(policies_in).listed():
            if one.name.name in bound:
                spec = one.document()["spec"]
                bindings = tuple(bound[one.name.name])
                yield _Policy(one.name.name, spec, _scope(spec["matchConstraints"]), bindings)

    def _denials(
        self,
        policy: _Policy,
        call: RequestInfo,
        operation: Operation,
        new: Document | None,
        old: Document | None,
        options: WriteQuery,
    ) -> Iterator[tuple[str, str]]:
        """Message and reason of each failure that denies the request."""
        served = self._concerned(policy.scope, call, operation, new, old)
        if served is None:
            return
        facts: Document | None = None
        ignores = policy.spec.get("failurePolicy") == "Ignore"
        for binding in policy.bindings:
            if binding.scope is not None and self._concerned(binding.scope, call, operation, new, old) is None:
                continue
            said = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}'"
            try:
                given = self._parameters(policy, binding, call)
            except ParameterError as error:
                if not ignores:
                    yield f"{said} denied request: failed to configure binding: {error}", ""
                continue
            if facts is None:
                facts = self._facts(served, call, operation, new, old, options)
            for parameter in given:
                for failure in failures(policy.spec, {**facts, "params": parameter}):
                    if failure.is_error and ignores:
                        continue
                    yield from _acted_on(failure, binding, policy, call)

    def _concerned(
        self, scope: MatchScope, call: RequestInfo, operation: Operation, new: Document | None, old: Document | None
    ) -> Resource | None:
        def namespace() -> dict[str, str] | None:
            found = self._store.get("namespaces", ObjectName("", call.namespace))
            return None if found is None else dict(found.labels)

        return scope.served(call, operation, new, old, registry=self._registry, namespace=namespace)

    def _facts(
        self,
        served: Resource,
        call: RequestInfo,
        operation: Operation,
        new: Document | None,
        old: Document | None,
        options: WriteQuery,
    ) -> Document:
        """The variables of expressions, but for `params` and `variables`."""
        own = has_own_object(call)
        group, version, kind = body_kind(call)
        version = version if own else served.version
        resource = {"group": call.group, "version": served.version, "resource": call.plural}
        request: Document = {
            "kind": {"group": group, "version": version, "kind": kind},
            "resource": resource,
            "requestKind": {"group": group, "version": version, "kind": kind},
            "requestResource": {**resource, "version": call.resource.version},
            "operation": operation,
            "userInfo": user_info(call.user),
            "dryRun": options.dry_run,
        }
        for field, value in (
            ("name", call.name),
            ("namespace", call.name if (call.group, call.plural) == ("", "namespaces") else call.namespace),
            ("subResource", call.subresource),
            ("requestSubResource", call.subresource),
        ):
            if value:
                request[field] = value
        if operation in _OPTIONS:
            request["options"] = options.document(_OPTIONS[operation])
        return {
            "object": new if new is None or own else served.named(new),
            "oldObject": old if old is None else served.named(old),
            "request": request,
            "namespaceObject": self._namespace(call),
        }

    def _namespace(self, call: RequestInfo) -> Document | None:
        if not call.namespace or (call.group, call.plural) == ("", "namespaces"):
            return None
        stored = self._store.get("namespaces", ObjectName("", call.namespace))
        if stored is None:
            raise errors.not_found("", "namespaces", call.namespace)
        document = stored.document()
        metadata = {key: value for key, value in document["metadata"].items() if key not in _NOT_SHOWN}
        return {"metadata": metadata, "spec": document.get("spec") or {}, "status": document.get("status") or {}}


def _acted_on(
    failure: PolicyFailure, binding: _Binding, policy: _Policy, call: RequestInfo
) -> Iterator[tuple[str, str]]:
    """What the actions of a binding make of a failure. `Audit` does nothing: there is no audit log."""
    named = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}'"
    for action in binding.spec.get("validationActions") or ():
        if action == "Deny":
            yield f"{named} denied request: {failure.message}", failure.reason
        elif action == "Warn":
            call.warn(f"Validation failed for {named}: {failure.message}")


def _patched(manager: FieldManager | None, kind: str, document: Document, value: Any) -> Document:
    """A document after a mutation. A JSON patch whose `test` fails changes nothing."""
    try:
        if kind == "JSONPatch":
            changed: Document = json_patch(document, msgspec.json.encode(value))
            return changed
        if manager is None:
            raise EvaluationError("this endpoint has no server-side apply")
        named = {"apiVersion": document["apiVersion"], "kind": document["kind"]}
        return manager.merged(document, {**value, **named})
    except (PatchError, InternalError, TypeError) as error:
        cause = str(getattr(error, "cause", None) or error)
        if cause.startswith("test of "):
            return document
        raise EvaluationError(f"error applying patch: {cause}") from error


def _scope(document: Document) -> MatchScope:
    rules = document.get("resourceRules")
    # A binding without rules narrows by selectors alone.
    return MatchScope(document, rules or [_ANYTHING], document.get("excludeResourceRules") or ())


_ANYTHING: Document = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*", "*"]}


def _name(call: RequestInfo, new: Document | None) -> str:
    metadata = (new or {}).get("metadata") or {}
    return call.name or str(metadata.get("name") or metadata.get("generateName") or "")
