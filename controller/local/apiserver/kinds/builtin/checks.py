# SPDX-License-Identifier: Apache-2.0
"""What no rule of single fields says of kinds that nothing here acts on."""

import copy
import re
from collections.abc import Callable
from typing import Any

from trainwright.api import times
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.builtin.formats import Errors, negative_errors
from trainwright.controller.local.apiserver.kinds.builtin.parts import ensure, ensure_filled, entries, part
from trainwright.controller.local.apiserver.schema.errors import forbidden, invalid, not_supported
from trainwright.controller.local.gowriting import fields_of

_PERCENT = re.compile("[0-9]+%")
_PARTS = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas", "currentReplicas", "updatedReplicas")
_KEEPERS = (
    *(("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")),
    *(("apps/v1", "Deployment"), ("apps/v1", "DaemonSet")),
)
"""Kinds whose pods always restart."""


def _template_errors(document: Document) -> Errors:
    pod = part(part(part(document, "spec"), "template"), "spec")
    where = "spec.template.spec"
    policy, found = pod.get("restartPolicy"), list[Any]()
    if policy not in ("Always", None):
        found.append(not_supported(f"{where}.restartPolicy", policy, ("Always",)))
    if pod.get("activeDeadlineSeconds") is not None and document.get("kind") != "ReplicationController":
        found.append(forbidden(f"{where}.activeDeadlineSeconds", "pods of this kind have no deadline"))
    return found


def _deployment_errors(deployment: Document) -> Errors:
    strategy = part(part(deployment, "spec"), "strategy")
    found = _template_errors(deployment)
    if strategy.get("type") == "Recreate" and strategy.get("rollingUpdate") is not None:
        text = "may not be specified when strategy `type` is 'Recreate'"
        found.append(forbidden("spec.strategy.rollingUpdate", text))
    return found


def _stateful_errors(stateful: Document) -> Errors:
    strategy = part(part(stateful, "spec"), "updateStrategy")
    found, rolling = _template_errors(stateful), strategy.get("rollingUpdate")
    if strategy.get("type") == "OnDelete" and rolling is not None:
        text = "only allowed for updateStrategy 'RollingUpdate'"
        found.append(invalid("spec.updateStrategy.rollingUpdate", rolling, text))
    return found


def _budget_errors(budget: Document) -> Errors:
    spec = part(budget, "spec")
    shares = {name: spec[name] for name in ("minAvailable", "maxUnavailable") if spec.get(name) is not None}
    found = [error for name, value in shares.items() for error in _share_errors(value, f"spec.{name}")]
    if len(shares) > 1:
        found.append(invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
    return found


def _share_errors(value: Any, field: str) -> Errors:
    """Errors of a number of pods, or a percentage of them."""
    if isinstance(value, int):
        return negative_errors(value, field)
    if not _PERCENT.fullmatch(value):
        return [invalid(field, value, "must be a number, or a percentage such as 10%")]
    return [invalid(field, value, "must not be greater than 100%")] if int(value[:-1]) > 100 else []


def status_errors(document: Document, struct: str) -> Errors:
    """Errors of counts: none is negative, and no part of the pods is larger than the whole.

    Args:
        document: the object.
        struct: its Go type.
    """
    status = part(document, "status")
    counts = {name: value for name, value in status.items() if type(value) is int}
    found = [error for name, value in counts.items() for error in negative_errors(value, f"status.{name}")]
    if "replicas" in counts:
        known = fields_of(fields_of(struct)["status"].shape.struct)
        parts = (name for name in _PARTS if name in known)
        limits = [*((name, "replicas") for name in parts), ("availableReplicas", "readyReplicas")]
        found += [
            invalid(f"status.{name}", counts.get(name, 0), f"cannot be greater than status.{whole}")
            for name, whole in limits
            if counts.get(name, 0) > counts.get(whole, 0)
        ]
    return found


def _begin_update_strategy(stateful: Document) -> None:
    """Only who says no type gets `rollingUpdate`. `maxUnavailable` is of a feature that is off by default."""
    strategy = stateful["spec"]["updateStrategy"]
    if not strategy.get("type"):
        ensure(strategy, "rollingUpdate", {})
    if (rolling := strategy.get("rollingUpdate")) is not None:
        rolling.pop("maxUnavailable", None)
        ensure(rolling, "partition", 0)


def _note_generation(daemons: Document) -> None:
    """The annotation that apps/v1 has in place of a field of old versions."""
    ensure(daemons["metadata"], "annotations", {})
    daemons["metadata"]["annotations"].setdefault("deprecated.daemonset.template.generation", "1")


def _select_by_labels(controller: Document) -> None:
    """A ReplicationController selects the pods of its template."""
    template = controller["spec"].get("template")
    labels = part(part(template or {}, "metadata"), "labels")
    if labels:
        ensure_filled(controller["spec"], "selector", dict(labels))
        ensure_filled(controller["metadata"], "labels", dict(labels))


def _date_taints(slice_: Document) -> None:
    """A taint of a device says since when."""
    for device in entries(slice_["spec"], "devices"):
        for taint in entries(device, "taints"):
            ensure(taint, "timeAdded", times.format_time(times.wall_clock()))


def as_run(stateful: Document) -> Document:
    """A StatefulSet whose pods have the volumes of the claim templates, as its controller makes them."""
    made = copy.deepcopy(stateful)
    pod = part(part(part(made, "spec"), "template"), "spec")
    names = [part(claim, "metadata").get("name") or "" for claim in entries(made["spec"], "volumeClaimTemplates")]
    claims = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    if claims:
        pod["volumes"] = claims + [one for one in entries(pod, "volumes") if one.get("name") not in names]
    return made


CHECKS: dict[tuple[str, str], Callable[[Document], Errors]] = {
    **dict.fromkeys(_KEEPERS, _template_errors),
    ("apps/v1", "Deployment"): _deployment_errors,
    ("apps/v1", "StatefulSet"): _stateful_errors,
    ("policy/v1", "PodDisruptionBudget"): _budget_errors,
}
"""By apiVersion and kind."""
COMPLETED: dict[tuple[str, str], Callable[[Document], None]] = {
    ("v1", "ReplicationController"): _select_by_labels,
    ("apps/v1", "DaemonSet"): _note_generation,
    ("apps/v1", "StatefulSet"): _begin_update_strategy,
    ("resource.k8s.io/v1", "ResourceSlice"): _date_taints,
}
"""Defaults that hang on more than one field, or on what the request says; set before all others."""
AS_RUN: dict[tuple[str, str], Callable[[Document], Document]] = {("apps/v1", "StatefulSet"): as_run}
"""With what a controller adds to pods."""
