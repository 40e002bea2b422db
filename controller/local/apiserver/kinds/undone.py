# SPDX-License-Identifier: Apache-2.0
"""What is stored and not done. Whoever writes it is warned, so that nothing is left undone in silence."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.parts import entries, part
from trainwright.controller.local.apiserver.kinds.podspecs import CONTAINER_FIELDS
from trainwright.controller.local.apiserver.schema.published.kinds import RecordedKind

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
    """What nothing does of the objects of a kind.

    Args:
        kind: its row in the table.
        acted_on: code of this process acts on it.
        for_others: controllers and nodes from elsewhere may act on it.
        rbac: roles count.
    """
    text = ""
    if kind.group == _RBAC and not rbac:
        text = f"{kind.kind} is stored, but not enforced: without `--rbac`, every user may do everything"
    elif not acted_on and (kind.kind in _OF_THE_SERVER or not for_others):
        text = f"{kind.kind} is stored, but nothing in this cluster acts on it"
    if text:
        return lambda _: [text]
    found = {"Pod": _of_pod, "Job": _of_job, "Service": _of_service}.get(kind.kind)
    if found is None or for_others:
        return lambda _: []
    # Whoever wrote what a controller makes objects from was warned before.
    return lambda document: [] if _is_controlled(document) else list(found(document))


def _is_controlled(document: Document) -> bool:
    return any(owner.get("controller") for owner in entries(part(document, "metadata"), "ownerReferences"))


def _of_pod(pod: Document) -> Iterator[str]:
    return _of_specification(part(pod, "spec"), "spec")


def _of_job(job: Document) -> Iterator[str]:
    return _of_specification(part(part(part(job, "spec"), "template"), "spec"), "spec.template.spec")


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


def _of_service(service: Document) -> Iterator[str]:
    spec = part(service, "spec")
    if spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None":
        yield "spec.clusterIP: nothing answers at the address of this Service; pods find each other by a headless one"
