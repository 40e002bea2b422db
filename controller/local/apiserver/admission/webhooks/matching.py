# SPDX-License-Identifier: Apache-2.0
"""Which webhooks a request concerns: rules, selectors, conditions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from trainwright.api.extras import load
from trainwright.api.objects import Document
from trainwright.api.selectors import label_selector_of
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.kinds.registry import Resource, ResourceRegistry
from trainwright.controller.local.apiserver.request.call import Operation, RequestInfo

CONFIGURATIONS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
GROUP = "admissionregistration.k8s.io"
_EXEMPT = (
    *CONFIGURATIONS,
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
)
"""Resources of the group that no webhook is asked about, so that nobody can lock everybody out."""


def is_exempt(call: RequestInfo) -> bool:
    """Whether no webhook is asked about a call."""
    return call.group == GROUP and call.plural in _EXEMPT


class MatchScope:
    """Which requests the rules and selectors of a webhook or of a policy are about.

    Args:
        document: with `namespaceSelector`, `objectSelector`, `matchPolicy`.
        rules: those of which one must match.
        excluded: those of which none may match.
    """

    def __init__(self, document: Document, rules: Sequence[Document], excluded: Sequence[Document] = ()) -> None:
        self._rules = rules
        self._excluded = excluded
        self._exact = document.get("matchPolicy") == "Exact"
        self._namespaces = label_selector_of(document.get("namespaceSelector") or {})
        self._objects = label_selector_of(document.get("objectSelector") or {})

    def served(
        self,
        call: RequestInfo,
        operation: Operation,
        new: Document | None,
        old: Document | None,
        *,
        registry: ResourceRegistry,
        namespace: Callable[[], Mapping[str, str] | None],
    ) -> Resource | None:
        """The version of the resource in which a request is meant; None if it is not. Raises StatusError."""
        if not self._objects_match(new, old):
            return None
        if self._matching(self._excluded, call, operation, registry) is not None:
            return None
        served = self._matching(self._rules, call, operation, registry)
        return served if served is not None and self._namespace_matches(call, new or old, namespace) else None

    def names(self, group: str, plural: str) -> bool:
        """Whether a rule is about a resource, in whatever version, operation and scope."""
        return any(
            _matches_any(rule.get("apiGroups"), group)
            and _matches_any([one.partition("/")[0] for one in rule.get("resources") or ()], plural)
            for rule in self._rules
        )

    def _objects_match(self, new: Document | None, old: Document | None) -> bool:
        if self._objects is None:
            return False
        return not self._objects or any(
            one is not None and self._objects.matches((one.get("metadata") or {}).get("labels") or {})
            for one in (new, old)
        )

    def _namespace_matches(
        self, call: RequestInfo, document: Document | None, namespace: Callable[[], Mapping[str, str] | None]
    ) -> bool:
        if self._namespaces is None:
            return False
        if not self._namespaces:
            return True
        if (call.group, call.plural) == ("", "namespaces"):
            return self._namespaces.matches((document or {}).get("metadata", {}).get("labels") or {})
        if not call.resource.namespaced:
            return True
        labels = namespace()
        if labels is None:
            raise errors.not_found("", "namespaces", call.namespace)
        return self._namespaces.matches(labels)

    def _matching(
        self, rules: Sequence[Document], call: RequestInfo, operation: Operation, registry: ResourceRegistry
    ) -> Resource | None:
        for rule in rules:
            if _rule_matches(rule, call, operation, call.resource):
                return call.resource
        if not self._exact:
            others = registry.versions_of(call.group, call.plural)
            for rule in rules if len(others) > 1 else ():
                for other in others:
                    if other is not call.resource and _rule_matches(rule, call, operation, other):
                        return other
        return None


def body_kind(call: RequestInfo) -> tuple[str, str, str]:
    """Group, version and kind of the object that admission is about: that of the subresource, if it has its own."""
    sub = call.resource.subresources.get(call.subresource)
    if sub is None:
        return call.group, call.resource.version, call.kind
    return (sub.group if sub.version else call.group), sub.version or call.resource.version, sub.kind


def has_own_object(call: RequestInfo) -> bool:
    """Whether the body is no object of the resource: a Binding, an Eviction, the options of a connection."""
    return body_kind(call)[2] != call.kind


@dataclass(frozen=True, slots=True)
class Invocation:
    """A webhook that is asked, and in which version of the resource."""

    hook: "Hook"
    served: Resource


class Hook:
    """One webhook of a configuration."""

    def __init__(self, configuration: str, document: Document, *, mutating: bool) -> None:
        self.configuration = configuration
        self.document = document
        self.mutating = mutating
        self.name: str = document["name"]
        self._scope = MatchScope(document, document.get("rules") or ())

    @property
    def ignores_failures(self) -> bool:
        """Whether a request passes if this webhook cannot be asked."""
        return bool(self.document.get("failurePolicy") == "Ignore")

    @property
    def seconds(self) -> float:
        """How long it may take to answer."""
        return float(self.document.get("timeoutSeconds") or 10)

    @property
    def has_side_effects(self) -> bool:
        """Whether it cannot be asked in a dry run."""
        return self.document.get("sideEffects") not in ("None", "NoneOnDryRun")

    @property
    def is_asked_again(self) -> bool:
        """Whether it is asked again after others changed the object."""
        return bool(self.document.get("reinvocationPolicy") == "IfNeeded")

    def names(self, group: str, plural: str) -> bool:
        """Whether it may be asked about objects of a resource."""
        return self._scope.names(group, plural)

    def invocation(
        self,
        call: RequestInfo,
        operation: Operation,
        new: Document | None,
        old: Document | None,
        *,
        registry: ResourceRegistry,
        namespace: Callable[[], Mapping[str, str] | None],
    ) -> Invocation | None:
        """How it is asked about a call; None if it is not asked. Raises StatusError."""
        served = self._scope.served(call, operation, new, old, registry=registry, namespace=namespace)
        if served is None:
            return None
        conditions = self.document.get("matchConditions") or ()
        if conditions and not self._conditions_hold(call, operation, new, old, conditions):
            return None
        return Invocation(self, served)

    def _conditions_hold(
        self, call: RequestInfo, operation: Operation, new: Document | None, old: Document | None, conditions: Any
    ) -> bool:
        data = {"object": new, "oldObject": old, "request": _request_facts(call, operation)}
        failed: list[str] = []
        for condition in conditions:
            answer = _compiled(condition["expression"]).eval(data=data).value()
            if answer is False:
                return False
            if answer is not True:
                failed.append(f"{condition['name']}: {answer}")
        if failed:
            if self.ignores_failures:
                return False
            raise errors.forbidden(call.group, call.plural, call.name, "; ".join(failed))
        return True


def _request_facts(call: RequestInfo, operation: Operation) -> Document:
    resource = {"group": call.group, "version": call.resource.version, "resource": call.plural}
    return {
        "operation": operation,
        "name": call.name,
        "namespace": call.namespace,
        "subResource": call.subresource,
        "resource": resource,
        "kind": dict(zip(("group", "version", "kind"), body_kind(call), strict=True)),
        "userInfo": {"username": call.user.name, "groups": list(call.user.groups), "uid": call.user.uid},
    }


@cache
def _compiled(expression: str) -> Any:
    cel = load("cel_expr_python.cel")
    config = cel.NewEnvConfigFromYaml("name: conditions\nextensions:\n- name: strings\n- name: sets\n- name: lists\n")
    variables = dict.fromkeys(("object", "oldObject", "request"), cel.Type.DYN)
    return cel.NewEnv(config=config, variables=variables).compile(expression)


def _rule_matches(rule: Document, call: RequestInfo, operation: Operation, served: Resource) -> bool:
    if not (
        _matches_any(rule.get("operations"), operation)
        and _matches_any(rule.get("apiGroups"), served.group)
        and _matches_any(rule.get("apiVersions"), served.version)
    ):
        return False
    names = rule.get("resourceNames")
    if names and call.name not in names:
        return False
    scope = rule.get("scope") or "*"
    namespaced = served.namespaced and (served.group, served.plural) != ("", "namespaces")
    if scope != "*" and (scope == "Namespaced") != namespaced:
        return False
    return any(_resource_matches(wanted, served.plural, call.subresource) for wanted in rule.get("resources") or ())


def _matches_any(allowed: Sequence[str] | None, word: str) -> bool:
    return allowed is not None and ("*" in allowed or word in allowed)


def _resource_matches(wanted: str, plural: str, subresource: str) -> bool:
    resource, _, sub = wanted.partition("/")
    return resource in ("*", plural) and sub in (subresource, "*")
