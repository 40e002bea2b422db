# SPDX-License-Identifier: Apache-2.0
"""The built-in kinds that are served: their strategies, their field managers, and what nothing does of them.

The kinds that are answered and not stored, such as reviews, are here too.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds import others
from trainwright.controller.local.apiserver.kinds.definition_strategy import DefinitionStrategy
from trainwright.controller.local.apiserver.kinds.jobs import JobStrategy
from trainwright.controller.local.apiserver.kinds.metadata import entries, part
from trainwright.controller.local.apiserver.kinds.pods import PodStrategy
from trainwright.controller.local.apiserver.kinds.podspecs import CONTAINER_FIELDS
from trainwright.controller.local.apiserver.kinds.registry import (
    ALL_VERBS,
    Resource,
    ResourceRegistry,
    model_of_body,
)
from trainwright.controller.local.apiserver.kinds.strategy import BuiltInStrategy, Strategy
from trainwright.controller.local.apiserver.merge import fieldset
from trainwright.controller.local.apiserver.merge.fieldmanager import FieldManager
from trainwright.controller.local.apiserver.schema.published.kinds import RecordedKind, Subresource, recorded
from trainwright.controller.local.types.go_json import zero
from trainwright.controller.local.types.model import builtin, models_by_kind

_DEFINITION = "CustomResourceDefinition"
_EXTENSIONS = "apiextensions.k8s.io"
_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"


def serve_built_in(registry: ResourceRegistry, *, for_others: bool, rbac: bool = False) -> None:
    """Add the built-in kinds; `built_in_kinds` says what the arguments are."""
    for kind in (*built_in_kinds(for_others=for_others, rbac=rbac), _definitions(), *reviews()):
        registry.add(kind)


def _definitions() -> Resource:
    row = RecordedKind(
        group=_EXTENSIONS,
        version="v1",
        kind=_DEFINITION,
        plural="customresourcedefinitions",
        namespaced=False,
        verbs=ALL_VERBS,
        model=models_by_kind()[f"{_EXTENSIONS}/v1", _DEFINITION],
        singular=_DEFINITION.lower(),
        stored_as=f"{_EXTENSIONS}/v1beta1",
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        subresources=(Subresource("status", _DEFINITION, ("get", "patch", "update")),),
    )
    return resource_of(row, DefinitionStrategy())


def reviews() -> list[Resource]:
    """Kinds that are answered and not stored."""
    return [
        *(_review(_AUTHENTICATION, kind) for kind in ("SelfSubjectReview", "TokenReview")),
        *(_review(_AUTHORIZATION, kind) for kind in ("SelfSubjectAccessReview", "SelfSubjectRulesReview")),
        _review(_AUTHORIZATION, "SubjectAccessReview"),
        _review(_AUTHORIZATION, "LocalSubjectAccessReview", namespaced=True),
    ]


def _review(group: str, kind: str, *, namespaced: bool = False) -> Resource:
    model, singular = models_by_kind()[f"{group}/v1", kind], kind.lower()
    row = RecordedKind(group, "v1", kind, f"{singular}s", namespaced, ("create",), model, singular=singular)
    return resource_of(row, Strategy())


Undone: TypeAlias = Callable[[Document], list[str]]
"""What is warned of in an object."""

_RBAC = "rbac.authorization.k8s.io"
_OF_THE_SERVER = frozenset(
    {
        *("ResourceQuota", "PodDisruptionBudget", "APIService", "ServiceCIDR"),
        *("FlowSchema", "PriorityLevelConfiguration"),
    }
)
"""Kinds that kube-apiserver itself acts on, so that no controller from elsewhere can stand in for it."""
_USER = "is ignored: processes run as the user of this machine"
_OF_PODS = {
    "dnsConfig": "is ignored: processes use the name servers of this machine",
    "resourceClaims": "is ignored: the node has no drivers of devices",
    "runtimeClassName": "is ignored: pods are processes of this machine",
    "securityContext": _USER,
}
_LIMITED = ("cpu", "memory", "ephemeral-storage")


def undone(kind: RecordedKind, *, acted_on: bool, for_others: bool, rbac: bool) -> Undone:
    """What nothing does of the objects of a kind; `acted_on`: code of this process acts on it. See `built_in_kinds`."""
    text = ""
    if kind.group == _RBAC and not rbac:
        text = f"{kind.kind} is stored, but not enforced: without `--rbac`, every user may do everything"
    elif not acted_on and (kind.kind in _OF_THE_SERVER or not for_others):
        text = f"{kind.kind} is stored, but nothing in this cluster acts on it"
    if text:
        return lambda _: [text]
    if for_others or kind.kind not in _FIELDS:
        return lambda _: []
    # Whoever wrote what a controller makes objects from was warned before.
    return lambda document: [] if _is_controlled(document) else list(_FIELDS[kind.kind](document))


def _is_controlled(document: Document) -> bool:
    return any(owner.get("controller") for owner in entries(part(document, "metadata"), "ownerReferences"))


def _of_specification(spec: Document, field: str) -> Iterator[str]:
    yield from (f"{field}.{name} {text}" for name, text in _OF_PODS.items() if spec.get(name))
    for name in CONTAINER_FIELDS:
        for index, container in enumerate(entries(spec, name)):
            where = f"{field}.{name}[{index}]"
            if container.get("securityContext"):
                yield f"{where}.securityContext {_USER}"
            limits = [one for one in part(part(container, "resources"), "limits") if one in _LIMITED]
            if limits:
                yield f"{where}.resources.limits: the limits of {', '.join(limits)} are not enforced"


def _of_job(job: Document) -> Iterator[str]:
    spec = part(job, "spec")
    if spec.get("backoffLimitPerIndex") is not None:
        yield "spec.backoffLimitPerIndex is ignored: the failures of all indexes count for spec.backoffLimit"
    yield from _of_specification(part(part(spec, "template"), "spec"), "spec.template.spec")


def _of_service(service: Document) -> Iterator[str]:
    spec = part(service, "spec")
    if spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None":
        yield "spec.clusterIP: nothing answers at the address of this Service; pods find each other by a headless one"


_FIELDS: Mapping[str, Callable[[Document], Iterator[str]]] = {
    "Pod": lambda pod: _of_specification(part(pod, "spec"), "spec"),
    "Job": _of_job,
    "Service": _of_service,
}
"""What is warned of in objects of a kind that is acted on."""


def _managers(row: RecordedKind, strategy: Strategy, subresources: Iterable[Subresource]) -> dict[str, FieldManager]:
    """The field managers of a kind by subresource."""
    found: dict[str, FieldManager] = {}
    for sub in (Subresource("", row.kind, ()), *subresources):
        if sub.group:
            version, model = f"{sub.group}/{sub.version}", model_of_body(sub)
        elif sub.name in ("", "approval", "finalize", "status"):
            version, model = row.api_version, row.model
        else:
            continue
        paths = strategy.reset_fields.get(sub.name, ())
        found[sub.name] = FieldManager(
            builtin(model),
            version,
            sub.kind,
            subresource=sub.name,
            reset=fieldset.of(*(tuple(f"f:{step}" for step in path) for path in paths)),
            empty=zero(model, apiVersion=version, kind=sub.kind),
        )
    return found


_STRATEGIES: dict[str, type[BuiltInStrategy]] = {
    "v1 Event": others.EventStrategy,
    "v1 LimitRange": others.LimitRangeStrategy,
    "v1 Namespace": others.NamespaceStrategy,
    "v1 Node": others.NodeStrategy,
    "v1 Pod": PodStrategy,
    "v1 Secret": others.SecretStrategy,
    "v1 Service": others.ServiceStrategy,
    "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy": others.PolicyStrategy,
    "batch/v1 Job": JobStrategy,
    "events.k8s.io/v1 Event": others.EventStrategy,
}
"""Kinds with code of their own."""
ACTED_ON = frozenset(
    {
        *("ConfigMap", "Event", "LimitRange", "Namespace", "Node", "PersistentVolumeClaim", "PersistentVolume", "Pod"),
        *("Secret", "ServiceAccount", "Service", "Job", "Lease", "PriorityClass", "RuntimeClass", "StorageClass"),
        *("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
        *("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    }
)
"""Kinds that something of this process acts on."""
_NOT_SERVED = frozenset({"attach", "ephemeralcontainers", "proxy", "resize"})
"""Subresources of the real server that there are none of."""


_OF_THE_ROW = (
    *("group", "version", "kind", "plural", "singular", "namespaced", "columns", "verbs", "list_kind", "short_names"),
    *("categories", "collection", "stored_as", "model", "selectable", "warning"),
)
"""What a resource has of its row in the table of kinds."""


def built_in_kinds(*, for_others: bool, rbac: bool = False) -> list[Resource]:
    """All stored kinds but CustomResourceDefinition.

    Args:
        for_others: controllers from elsewhere act on what nothing of this process acts on. Else who writes such an
            object is warned that nothing will happen.
        rbac: roles count.
    """
    return [_built_in(kind, for_others=for_others, rbac=rbac) for kind in recorded().kinds]


def _built_in(kind: RecordedKind, *, for_others: bool, rbac: bool) -> Resource:
    strategy = _STRATEGIES.get(f"{kind.api_version} {kind.kind}", BuiltInStrategy)(kind)
    strategy.undone = undone(kind, acted_on=kind.kind in ACTED_ON, for_others=for_others, rbac=rbac)
    if (kind.api_version, kind.kind) == ("events.k8s.io/v1", "Event"):
        return replace(resource_of(kind, strategy), to_storage=others.to_core, from_storage=others.to_events)
    return resource_of(kind, strategy)


def resource_of(row: RecordedKind, strategy: Strategy) -> Resource:
    """A built-in kind as it is served; what of its subresources there is here."""
    subresources = {one.name: one for one in row.subresources if one.name not in _NOT_SERVED}
    return Resource(
        **{name: getattr(row, name) for name in _OF_THE_ROW},
        strategy=strategy,
        managers=_managers(row, strategy, subresources.values()),
        subresources=subresources,
    )
