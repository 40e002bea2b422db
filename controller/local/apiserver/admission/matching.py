# SPDX-License-Identifier: Apache-2.0
"""Which requests webhooks and policies are about: rules, selectors, match conditions."""

from collections.abc import Sequence

from trainwright.api.objects import Document
from trainwright.api.selectors import label_selector_of
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.admission.request import AdmissionRequest
from trainwright.controller.local.apiserver.kinds.admission import CONDITION_VARIABLES
from trainwright.controller.local.apiserver.kinds.registry import Resource, ResourceRegistry
from trainwright.controller.local.apiserver.store import ObjectName, ObjectStore
from trainwright.controller.local.cel.expression import EvaluationError, compiled_over

GROUP = "admissionregistration.k8s.io"


def is_exempt(request: AdmissionRequest) -> bool:
    """Whether neither webhooks nor policies are asked about a request: else nobody could undo what locks all out."""
    return request.call.group == GROUP


class MatchScope:
    """Which requests a webhook or policy is about: one of `rules` must match, none of `excluded`, and the selectors."""

    def __init__(self, document: Document, rules: Sequence[Document], excluded: Sequence[Document] = ()) -> None:
        self._rules = rules
        self._excluded = excluded
        self._exact = document.get("matchPolicy") == "Exact"
        self._namespaces = label_selector_of(document.get("namespaceSelector") or {})
        self._objects = label_selector_of(document.get("objectSelector") or {})

    def served(self, request: AdmissionRequest, registry: ResourceRegistry, store: ObjectStore) -> Resource | None:
        """The version of the resource in which a request is meant; None if it is not. Raises StatusError."""
        if not self._objects_match(request) or self._matching(self._excluded, request, registry) is not None:
            return None
        served = self._matching(self._rules, request, registry)
        return served if served is not None and self._namespace_matches(request, store) else None

    def names(self, group: str, plural: str) -> bool:
        """Whether a rule is about a resource, in whatever version, operation and scope."""
        return any(
            _matches_any(rule.get("apiGroups"), group)
            and _matches_any([one.partition("/")[0] for one in rule.get("resources") or ()], plural)
            for rule in self._rules
        )

    def _objects_match(self, request: AdmissionRequest) -> bool:
        if self._objects is None:
            return False
        return not self._objects or any(
            one is not None and self._objects.matches((one.get("metadata") or {}).get("labels") or {})
            for one in (request.new, request.old)
        )

    def _namespace_matches(self, request: AdmissionRequest, store: ObjectStore) -> bool:
        if self._namespaces is None:
            return False
        call = request.call
        if (call.group, call.plural) == ("", "namespaces"):
            document = request.new or request.old or {}
            return not self._namespaces or self._namespaces.matches(document.get("metadata", {}).get("labels") or {})
        if not self._namespaces or not call.resource.namespaced:
            return True
        found = store.get("namespaces", ObjectName("", call.namespace))
        if found is None:
            raise errors.not_found("", "namespaces", call.namespace)
        return self._namespaces.matches(found.labels)

    def _matching(
        self, rules: Sequence[Document], request: AdmissionRequest, registry: ResourceRegistry
    ) -> Resource | None:
        asked = request.call.resource
        if any(_rule_matches(rule, request, asked) for rule in rules):
            return asked
        others = [] if self._exact or not rules else registry.versions_of(asked.group, asked.plural)
        for rule in rules:
            for other in others:
                if other is not asked and _rule_matches(rule, request, other):
                    return other
        return None


def conditions_hold(conditions: Sequence[Document], facts: Document) -> bool:
    """Whether all match conditions hold; one that is false outweighs those that fail. Raises EvaluationError."""
    known = {name: facts.get(name) for name in CONDITION_VARIABLES}
    problems: list[str] = []
    for condition in conditions:
        expression = condition["expression"].strip()
        try:
            if compiled_over(expression, CONDITION_VARIABLES).run(known) is False:
                return False
        except ValueError as error:
            # One that names the authorizer is stored, and cannot be compiled here.
            problems.append(f"expression '{expression}' resulted in error: {error}")
    if problems:
        raise EvaluationError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    return True


def _rule_matches(rule: Document, request: AdmissionRequest, served: Resource) -> bool:
    call = request.call
    if not (
        _matches_any(rule.get("operations"), request.operation)
        and _matches_any(rule.get("apiGroups"), served.group)
        and _matches_any(rule.get("apiVersions"), served.version)
    ):
        return False
    names = rule.get("resourceNames")
    if names and call.asked_name not in names:
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
