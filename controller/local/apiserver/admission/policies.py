# SPDX-License-Identifier: Apache-2.0
"""Policies as a part of admission: mutating ones before the mutating webhooks, validating ones after all changes.

A mutating policy that is to be invoked again is so after other policies, not after webhooks.
https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/
https://kubernetes.io/docs/reference/access-authn-authz/mutating-admission-policy/
"""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from trainwright.api.objects import Document
from trainwright.api.selectors import label_selector_of
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.admission.conversion import Conversions
from trainwright.controller.local.apiserver.admission.matching import GROUP, MatchScope, conditions_hold, is_exempt
from trainwright.controller.local.apiserver.admission.request import AdmissionRequest
from trainwright.controller.local.apiserver.kinds.admission import PATCHES, USED, VARIABLES
from trainwright.controller.local.apiserver.kinds.registry import Resource, ResourceRegistry
from trainwright.controller.local.apiserver.merge.fieldmanager import FieldManager
from trainwright.controller.local.apiserver.merge.patch import json_patch
from trainwright.controller.local.apiserver.store import ObjectName, ObjectStore
from trainwright.controller.local.cel.expression import EvaluationError, compiled_over, with_maps
from trainwright.controller.local.types.go_json import DocumentDecodeError

_VALIDATING = f"validatingadmissionpolicies.{GROUP}", f"validatingadmissionpolicybindings.{GROUP}"
_MUTATING = f"mutatingadmissionpolicies.{GROUP}", f"mutatingadmissionpolicybindings.{GROUP}"
_CODES = {"Forbidden": 403, "RequestEntityTooLarge": 413}
_INVALID = 422
_NOT_SHOWN = ("managedFields", "ownerReferences")
_ANYTHING: Document = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*", "*"]}

_LONGEST_MESSAGE = 5 * 1024


class ParameterError(ValueError):
    """A binding cannot be used; the text is for the client."""


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

    @property
    def ignores_failures(self) -> bool:
        return bool(self.spec.get("failurePolicy") == "Ignore")


class Policies:
    """Evaluates the policies that are stored; `mutate` and `validate` are plugins of the chain."""

    def __init__(self, store: ObjectStore, registry: ResourceRegistry, conversions: Conversions) -> None:
        self._conversions = conversions
        self._store = store
        self._registry = registry
        self._known: dict[str, tuple[tuple[int, int], tuple[_Policy, ...]]] = {}

    async def mutate(self, request: AdmissionRequest) -> None:
        """Make of the object what the mutating policies say. Raises StatusError."""
        policies = self._policies(*_MUTATING)
        if request.new is None or not policies or is_exempt(request) or request.has_own_object:
            return
        changes = 0
        seen: dict[str, int] = {}
        """By policy: how many changes there were when its first mutation was done."""
        for policy in policies:
            before = request.new
            async for made in self._mutated(policy, request):
                changes, before = changes + (made != before), made
                seen.setdefault(policy.name, changes)
        for policy in policies:
            if policy.spec.get("reinvocationPolicy") == "IfNeeded" and changes > seen.get(policy.name, changes):
                async for _ in self._mutated(policy, request):
                    pass

    async def _mutated(self, policy: _Policy, request: AdmissionRequest) -> AsyncIterator[Document]:
        """The object after each mutation, which becomes that of the request."""
        served = policy.scope.served(request, self._registry, self._store)
        if served is None:
            return
        patch = partial(_patched, served.managers.get(request.call.subresource))
        for binding in self._bindings(policy, request):
            try:
                for parameter in await self._parameters(policy, binding, request):
                    facts = {**await self._facts(served, request), "params": parameter}
                    for step in mutated(policy.spec, facts, patch):
                        own = await self._conversions.served(request.call.resource, step)
                        request.new = made = request.decoded(own)
                        yield made
            except (ParameterError, EvaluationError, DocumentDecodeError) as error:
                if policy.ignores_failures:
                    continue
                is_missing = isinstance(error, ParameterError)
                told = f"failed to configure binding: {error}" if is_missing else str(error)
                said = f"policy '{policy.name}' with binding '{binding.name}' denied request: {told}"
                refused = _refusal(request, said, "Forbidden" if is_missing else "Invalid")
                refused.code, refused.message = 403, said
                raise refused from error

    async def validate(self, request: AdmissionRequest) -> None:
        """Refuse with the first failure, and warn of what is only to be warned of. Raises StatusError."""
        policies = self._policies(*_VALIDATING)
        if not policies or is_exempt(request):
            return
        denials = [denial for policy in policies async for denial in self._denials(policy, request)]
        if denials:
            raise _refusal(request, *denials[0])

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
                yield _Policy(one.name.name, spec, _scope(spec["matchConstraints"]), tuple(bound[one.name.name]))

    def _bindings(self, policy: _Policy, request: AdmissionRequest) -> Iterator[_Binding]:
        """Those that are about a request."""
        for binding in policy.bindings:
            if binding.scope is None or binding.scope.served(request, self._registry, self._store) is not None:
                yield binding

    async def _denials(self, policy: _Policy, request: AdmissionRequest) -> AsyncIterator[tuple[str, str]]:
        """Message and reason of each failure that denies the request. `Audit` does nothing: there is no audit log."""
        served = policy.scope.served(request, self._registry, self._store)
        if served is None:
            return
        facts: Document | None = None
        for binding in self._bindings(policy, request):
            named = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}'"
            try:
                given = await self._parameters(policy, binding, request)
            except ParameterError as error:
                if not policy.ignores_failures:
                    yield f"{named} denied request: failed to configure binding: {error}", "Invalid"
                continue
            facts = facts or await self._facts(served, request)
            for parameter in given:
                known = {**facts, "params": parameter}
                for message, reason in failures(policy.spec, known, ignore_errors=policy.ignores_failures):
                    if "Warn" in binding.spec["validationActions"]:
                        request.call.warn(f"Validation failed for {named}: {message}")
                    if "Deny" in binding.spec["validationActions"]:
                        yield f"{named} denied request: {message}", reason

    async def _facts(self, served: Resource, request: AdmissionRequest) -> Document:
        """The variables of expressions, but for `params` and `variables`."""
        return {
            **await self._conversions.objects(request, served),
            "request": request.review(served),
            "namespaceObject": self._namespace(request),
        }

    def _namespace(self, request: AdmissionRequest) -> Document | None:
        call = request.call
        if not call.namespace or (call.group, call.plural) == ("", "namespaces"):
            return None
        document = self._store.document("namespaces", call.namespace)
        if document is None:
            raise errors.not_found("", "namespaces", call.namespace)
        metadata = {key: value for key, value in document["metadata"].items() if key not in _NOT_SHOWN}
        return {"metadata": metadata, "spec": document.get("spec") or {}, "status": document.get("status") or {}}

    async def _parameters(
        self, policy: _Policy, binding: _Binding, request: AdmissionRequest
    ) -> Sequence[Document | None]:
        """The parameters for a request: [None] where there is nothing to give, none where the policy is not asked.

        Raises ParameterError where there is no such kind, or no object and that is to be refused.
        """
        kind, reference = policy.spec.get("paramKind"), binding.spec.get("paramRef")
        if kind is None or reference is None:
            return [None]
        wanted = kind.get("apiVersion"), kind.get("kind")
        served = next((one for one in self._registry if (one.api_version, one.kind) == wanted), None)
        if served is None:
            raise ParameterError(f"paramKind kind `{wanted[0]}, Kind={wanted[1]}` not known")
        where = reference.get("namespace") or ""
        if served.namespaced:
            where = where or request.call.namespace
            if not where:
                raise ParameterError(
                    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                )
        elif where:
            raise ParameterError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        if reference.get("name"):
            one = self._store.get(served.stored_in, ObjectName(where, reference["name"]))
            stored = [] if one is None else [one]
        else:
            selector = label_selector_of(reference.get("selector"))
            listed = self._store.collection(served.stored_in).listed(where)
            stored = [one for one in listed if selector is not None and selector.matches(one.labels)]
        if not stored and reference.get("parameterNotFoundAction") != "Allow":
            raise ParameterError("no params found for policy binding with `Deny` parameterNotFoundAction")
        return [await self._conversions.served(served, one.document()) for one in stored]


def _refusal(request: AdmissionRequest, message: str, reason: str) -> errors.StatusError:
    error = errors.forbidden(request.call.group, request.call.plural, request.name or "Unknown", message)
    error.reason, error.code = reason, _CODES.get(reason, _INVALID)
    error.details = {**(error.details or {}), "causes": [{"message": message}]}
    return error


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
    except (errors.StatusError, TypeError) as error:
        cause = str(getattr(error, "cause", None) or error)
        if cause.startswith("test of "):
            return document
        raise EvaluationError(f"error applying patch: {cause}") from error


def _scope(document: Document) -> MatchScope:
    rules = document.get("resourceRules")
    # A binding without rules narrows by selectors alone.
    return MatchScope(document, rules or [_ANYTHING], document.get("excludeResourceRules") or ())


# -------------------------------------------------------------- one policy, one request, one parameter


def failures(spec: Document, facts: Document, *, ignore_errors: bool) -> Iterator[tuple[str, str]]:
    """Message and reason of each validation that does not hold, or cannot be evaluated."""
    try:
        if not conditions_hold(spec.get("matchConditions") or (), facts):
            return
    except EvaluationError as error:
        if not ignore_errors:
            yield str(error), "Invalid"
        return
    data, broken = _with_variables(spec, facts)
    for validation in spec.get("validations") or ():
        expression = validation["expression"]
        try:
            if _value(expression, data, broken) is not True:
                yield _message(validation, data, broken), validation.get("reason") or "Invalid"
        except EvaluationError as error:
            if not ignore_errors:
                yield f"expression '{expression}' resulted in error: {error}", "Invalid"


def mutated(spec: Document, facts: Document, patch: Callable[[str, Document, Any], Document]) -> Iterator[Document]:
    """The object after each mutation of a policy, which sees what the one before made; `patch` applies what it gives.

    Raises EvaluationError where an expression cannot be evaluated, or what it gives cannot be applied.
    """
    made: Document = facts["object"]
    if not conditions_hold(spec.get("matchConditions") or (), facts):
        return
    for mutation in spec.get("mutations") or ():
        data, broken = _with_variables(spec, {**facts, "object": made})
        expression = mutation[PATCHES[mutation["patchType"]].field]["expression"]
        try:
            value = _value(with_maps(expression), data, broken)
        except EvaluationError as error:
            raise EvaluationError(f"expression '{expression}' resulted in error: {error}") from error
        made = patch(mutation["patchType"], made, value)
        yield made


def _with_variables(spec: Document, facts: Document) -> tuple[Document, dict[str, str]]:
    """The facts with the variables of a policy, and why some could not be evaluated."""
    data: Document = {**facts, "variables": {}}
    broken: dict[str, str] = {}
    for variable in spec.get("variables") or ():
        name = variable["name"]
        try:
            data["variables"][name] = _value(variable["expression"], data, broken)
        except EvaluationError as error:
            # It matters only to what names it.
            broken[name] = f'composited variable "{name}" fails to evaluate: {error}'
    return data, broken


def _value(expression: str, data: Document, broken: dict[str, str]) -> Any:
    try:
        return compiled_over(expression, VARIABLES).run(data)
    except EvaluationError as error:
        for name in USED.findall(expression):
            if name in broken:
                raise EvaluationError(broken[name]) from error
        raise


def _message(validation: Document, data: Document, broken: dict[str, str]) -> str:
    """What the messageExpression says, if it says something usable; else the message, else the expression."""
    text: Any = ""
    if (validation.get("messageExpression") or "").strip():
        try:
            text = _value(validation["messageExpression"], data, broken)
        except EvaluationError:
            text = ""
    text = text.strip() if isinstance(text, str) else ""
    if "\n" in text or len(text.encode()) > _LONGEST_MESSAGE:
        text = ""
    text = text or (validation.get("message") or "").strip()
    return text or f"failed expression: {validation['expression'].strip()}"
