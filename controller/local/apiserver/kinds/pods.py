# SPDX-License-Identifier: Apache-2.0
"""Pods: their life, their defaults beside those of all specifications, and what an update may change."""

from trainwright.api import names, times
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.formats import Errors, same
from trainwright.controller.local.apiserver.kinds.metadata import ensure_filled, entries, part, set_or_drop
from trainwright.controller.local.apiserver.kinds.podspecs import (
    default_pod_spec,
    fixed_part,
    pod_spec_warnings,
    quality_of_service,
)
from trainwright.controller.local.apiserver.kinds.strategy import BuiltInStrategy, ResetFields
from trainwright.controller.local.types.errors import DocumentError, forbidden, invalid

_CHANGEABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations)"
)


class PodStrategy(BuiltInStrategy):
    """Pods: a graceful deletion, a status that begins as Pending, and a specification that hardly changes."""

    graceful = True
    reset_fields: ResetFields = {  # noqa: RUF012 - never changed
        "status": (("spec",), ("metadata", "deletionTimestamp"), ("metadata", "ownerReferences"))
    }

    def default(self, document: Document) -> None:
        super().default(document)
        spec = document["spec"]
        for field in ("containers", "initContainers"):
            for container in entries(spec, field):
                _request_limits(container)
        default_pod_spec(spec)
        if spec.get("hostNetwork"):
            _open_host_ports(spec)
        if address := document["status"].get("podIP"):
            ensure_filled(document["status"], "podIPs", [{"ip": address}])

    def prepare_for_create(self, document: Document) -> None:
        super().prepare_for_create(document)
        spec = document["spec"]
        status: Document = {"phase": "Pending", "qosClass": quality_of_service(spec)}
        if spec.get("schedulingGates"):
            gated = {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": times.format_time(times.wall_clock()),
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
            status["conditions"] = [gated]
        document["status"] = status

    def prepare_for_update(self, new: Document, old: Document, subresource: str) -> None:
        super().prepare_for_update(new, old, subresource)
        if subresource == "status":
            # A kubelet of old broke owner references here.
            set_or_drop(new["metadata"], "ownerReferences", old["metadata"].get("ownerReferences"))
            status = new["status"]
            set_or_drop(status, "qosClass", status.get("qosClass") or part(old, "status").get("qosClass"))

    def validate_update(self, new: Document, old: Document, subresource: str) -> list[DocumentError]:
        found = super().validate_update(new, old, subresource)
        return found if subresource == "status" else found + _update_errors(new, old)

    def warnings(self, new: Document, old: Document | None) -> list[str]:
        # People hardly change pods, so nobody would see warnings of updates.
        if old is not None:
            return []
        problems = names.dns_label(new["metadata"].get("name") or "")
        text = "this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended"
        found = [f"metadata.name: {text}: [{' '.join(problems)}]"] if problems else []
        return [*found, *pod_spec_warnings(new["spec"], "spec")]

    def grace_of(self, document: Document, asked: int | None) -> int | None:
        spec = part(document, "spec")
        grace = spec.get("terminationGracePeriodSeconds") if asked is None else asked
        # Without a node, or with its containers ended, no kubelet would confirm the end.
        if not grace or not spec.get("nodeName") or part(document, "status").get("phase") in ("Failed", "Succeeded"):
            return 0
        return max(int(grace), 1)


def _request_limits(container: Document) -> None:
    resources = part(container, "resources")
    for name, limit in part(resources, "limits").items():
        if not resources.get("requests"):
            resources["requests"] = {}
        resources["requests"].setdefault(name, limit)


def _open_host_ports(spec: Document) -> None:
    for field in ("containers", "initContainers"):
        for container in entries(spec, field):
            for port in entries(container, "ports"):
                ensure_filled(port, "hostPort", port.get("containerPort"))


# -------------------------------------------------------------- updates


def _update_errors(pod: Document, old: Document) -> Errors:
    """Hardly anything of a specification may change."""
    spec, before = part(pod, "spec"), part(old, "spec")
    for name in ("containers", "initContainers"):
        if len(entries(spec, name)) != len(entries(before, name)):
            return [forbidden(f"spec.{name}", "pod updates may not add or remove containers")]
    found = _deadline_errors(spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds"))
    known = [_without_seconds(toleration) for toleration in entries(spec, "tolerations")]
    if any(_without_seconds(toleration) not in known for toleration in entries(before, "tolerations")):
        text = "existing toleration can not be modified except its tolerationSeconds"
        found.append(forbidden("spec.tolerations", text))
    gates = [gate.get("name") for gate in entries(before, "schedulingGates")]
    for index, gate in enumerate(entries(spec, "schedulingGates")):
        if gate.get("name") not in gates:
            text = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            found.append(forbidden(f"spec.schedulingGates[{index}].name", text))
    changeable = ["activeDeadlineSeconds", "schedulingGates", "tolerations"]
    if entries(before, "schedulingGates"):
        # While gates hold a pod, it may be narrowed to some nodes (KEP-3838).
        changeable += ["nodeSelector", "affinity"]
    if not same(fixed_part(spec, changeable, "image"), fixed_part(before, changeable, "image")):
        found.append(forbidden("spec", f"pod updates may not change fields other than {_CHANGEABLE}"))
    return found


def _deadline_errors(deadline: int | None, before: int | None) -> Errors:
    if before is None or (deadline is not None and deadline <= before):
        return []
    return [invalid("spec.activeDeadlineSeconds", deadline, "must be less than or equal to previous value")]


def _without_seconds(toleration: Document) -> Document:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds" and value}
