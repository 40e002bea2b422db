# SPDX-License-Identifier: Apache-2.0
"""What admission is told of a request, the chain of those who may change an object or refuse it, and who is asked."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from trainwright.api.objects import Document
from trainwright.api.selectors import label_selector_of
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.errors import StatusError
from trainwright.controller.local.apiserver.kinds.others import CONDITION_VARIABLES
from trainwright.controller.local.apiserver.kinds.registry import Resource, ResourceRegistry
from trainwright.controller.local.apiserver.request.info import Operation, RequestInfo, WriteQuery, user_info
from trainwright.controller.local.apiserver.store import ObjectName, ObjectStore
from trainwright.controller.local.cel.expression import EvaluationError, compiled_over

_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


@dataclass(slots=True)
class AdmissionRequest:
    """A write or a connection, between the decoded object and the store."""

    call: RequestInfo
    operation: Operation
    new: Document | None
    """The object; None where it is deleted. Who changes it sets it: parts of it may belong to `old`."""
    old: Document | None
    options: WriteQuery

    def is_of(self, group: str, plural: str) -> bool:
        """Whether this is for an object of a kind, at its main endpoint."""
        return (self.call.group, self.call.plural, self.call.subresource) == (group, plural, "")

    def creates(self, group: str, plural: str) -> bool:
        """Whether this creates an object of a kind."""
        return self.operation == "CREATE" and self.is_of(group, plural)

    @property
    def name(self) -> str:
        """The name of the object, or what it is generated from; empty for collections."""
        metadata = (self.new or {}).get("metadata") or {}
        return self.call.asked_name or str(metadata.get("name") or metadata.get("generateName") or "")

    def forbidden(self, why: str) -> StatusError:
        """The answer of a plugin that refuses the object."""
        metadata = (self.new or {}).get("metadata") or {}
        name = metadata.get("name") or metadata.get("generateName") or "Unknown"
        return errors.forbidden(self.call.group, self.call.plural, name, why)

    @property
    def body_kind(self) -> tuple[str, str, str]:
        """Group, version and kind of the object: those of the subresource, if it has its own."""
        call = self.call
        sub = call.resource.subresources.get(call.subresource)
        if sub is None:
            return call.group, call.resource.version, call.kind
        return (sub.group if sub.version else call.group), sub.version or call.resource.version, sub.kind

    @property
    def has_own_object(self) -> bool:
        """Whether the body is no object of the resource: a Binding, an Eviction, the options of a connection."""
        return self.body_kind[2] != self.call.kind

    def review(self, served: Resource) -> Document:
        """The `request` of an AdmissionReview in a version of the resource; expressions see it too."""
        call, group = self.call, self.call.group

        def resource(version: str) -> Document:
            return {"group": group, "version": version, "resource": call.plural}

        def kind(version: str) -> Document:
            """The kind of the object, in a version of the resource if it is of its group."""
            of_body = self.body_kind
            return {"group": of_body[0], "version": version if of_body[0] == group else of_body[1], "kind": of_body[2]}

        made: Document = {
            "kind": kind(served.version),
            "resource": resource(served.version),
            "requestKind": kind(call.resource.version),
            "requestResource": resource(call.resource.version),
            "operation": self.operation,
            "userInfo": user_info(call.user),
            "dryRun": self.options.dry_run,
            "name": call.asked_name,
            "namespace": call.name if (group, call.plural) == ("", "namespaces") else call.namespace,
            "subResource": call.subresource,
            "requestSubResource": call.subresource,
        }
        if self.operation in _OPTIONS:
            made["options"] = self.options.document(_OPTIONS[self.operation])
        return {field: value for field, value in made.items() if value != ""}

    def decoded(self, changed: Document) -> Document:
        """A changed object in the version of the request, with defaults. Raises DocumentDecodeError."""
        made = self.call.resource.named(changed)
        self.call.resource.decode(made)
        self.call.resource.strategy.default(made)
        return made


Plugin: TypeAlias = Callable[[AdmissionRequest], Awaitable[None]]
"""Changes the object of a request, or raises StatusError where it is refused."""


class Chain:
    """Plugins, one after the other: those that may change the object, then those that may refuse it.

    `again` completes objects, and does so again where one after it has changed the object.
    """

    def __init__(
        self, mutating: Sequence[Plugin] = (), validating: Sequence[Plugin] = (), *, again: Plugin | None = None
    ) -> None:
        self._mutating, self._validating, self._again = mutating, validating, again

    async def mutate(self, request: AdmissionRequest) -> None:
        """Let each change what the one before it made. Raises StatusError."""
        completed = request.new
        for plugin in self._mutating:
            await plugin(request)
            if plugin == self._again:
                completed = request.new
        if self._again is not None and request.new != completed:
            await self._again(request)

    async def validate(self, request: AdmissionRequest) -> None:
        """Raises StatusError where the object is refused."""
        for plugin in self._validating:
            await plugin(request)


# -------------------------------------------------------------- which requests webhooks and policies are about

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
