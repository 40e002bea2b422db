# SPDX-License-Identifier: Apache-2.0
"""ValidatingAdmissionPolicies as a part of admission. Mutating ones are stored, and do nothing.

https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, NamedTuple

from trainwright.api.objects import Document
from trainwright.api.selectors import label_selector_of
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.admission.conversion import Conversions
from trainwright.controller.local.apiserver.admission.request import (
    GROUP,
    AdmissionRequest,
    MatchScope,
    conditions_hold,
    is_exempt,
)
from trainwright.controller.local.apiserver.kinds.others import USED, VARIABLES
from trainwright.controller.local.apiserver.kinds.registry import Resource, ResourceRegistry
from trainwright.controller.local.apiserver.store import ObjectName, ObjectStore
from trainwright.controller.local.cel.expression import EvaluationError, compiled_over

_POLICIES, _BINDINGS = f"validatingadmissionpolicies.{GROUP}", f"validatingadmissionpolicybindings.{GROUP}"
_CODES = {"Forbidden": 403, "RequestEntityTooLarge": 413}
_INVALID = 422
_NOT_SHOWN = ("managedFields", "ownerReferences")
_ANYTHING: Document = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*", "*"]}

_LONGEST_MESSAGE = 5 * 1024


class ParameterError(ValueError):
    """A binding cannot be used; the text is for the client."""


class _Binding(NamedTuple):
    name: str
    spec: Document
    scope: MatchScope | None


class _Policy(NamedTuple):
    name: str
    spec: Document
    scope: MatchScope
    bindings: list[_Binding]

    @property
    def ignores_failures(self) -> bool:
        return bool(self.spec.get("failurePolicy") == "Ignore")


class Policies:
    """Evaluates the policies that are stored; `validate` is a plugin of the chain."""

    def __init__(self, store: ObjectStore, registry: ResourceRegistry, conversions: Conversions) -> None:
        self._conversions = conversions
        self._store = store
        self._registry = registry
        self._known: tuple[tuple[int, int], list[_Policy]] = (-1, -1), []

    async def validate(self, request: AdmissionRequest) -> None:
        """Refuse with the first failure, and warn of what is only to be warned of. Raises StatusError."""
        policies = self._policies()
        if not policies or is_exempt(request):
            return
        denials = [denial for policy in policies async for denial in self._denials(policy, request)]
        if denials:
            raise _refusal(request, *denials[0])

    def _policies(self) -> list[_Policy]:
        """Those that have a binding, compiled once per change."""
        policies, bindings = self._store.collection(_POLICIES), self._store.collection(_BINDINGS)
        if not policies.by_name or not bindings.by_name:
            return []
        version = (policies.changed, bindings.changed)
        if self._known[0] != version:
            bound: dict[str, list[_Binding]] = {}
            for one in bindings.listed():
                spec = one.document()["spec"]
                scope = spec.get("matchResources")
                made = _Binding(one.name.name, spec, _scope(scope) if scope is not None else None)
                bound.setdefault(spec["policyName"], []).append(made)
            specs = {name: one.document()["spec"] for one in policies.listed() if (name := one.name.name) in bound}
            found = [_Policy(name, spec, _scope(spec["matchConstraints"]), bound[name]) for name, spec in specs.items()]
            self._known = version, found
        return self._known[1]

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
