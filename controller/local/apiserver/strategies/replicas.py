# SPDX-License-Identifier: Apache-2.0
"""ReplicationControllers, ReplicaSets, StatefulSets and PodDisruptionBudgets.

No controller of this process acts on them. Controllers and schedulers of others read and write them.
"""

import copy
import re
from typing import Any

from trainwright.api.objects import Document
from trainwright.api.validation import DocumentError
from trainwright.controller.local.apiserver import names
from trainwright.controller.local.apiserver.fields import not_allowed, required, unsupported, wrong
from trainwright.controller.local.apiserver.selection.errors import SelectorError
from trainwright.controller.local.apiserver.selection.labels import label_selector_of
from trainwright.controller.local.apiserver.strategies.formats import (
    Errors,
    choice_errors,
    finalizer_errors,
    immutable_errors,
    name_errors,
    negative_errors,
    same,
    selector_errors,
)
from trainwright.controller.local.apiserver.strategies.parts import ensure, ensure_filled, entries, part
from trainwright.controller.local.apiserver.strategies.pods.defaults import default_claim_spec, default_template
from trainwright.controller.local.apiserver.strategies.pods.specification import template_errors
from trainwright.controller.local.apiserver.strategies.pods.warnings import specification_warnings
from trainwright.controller.local.apiserver.strategies.strategy import WithSpec

_ORDERS = ("OrderedReady", "Parallel")
_RETENTION = ("Retain", "Delete")
_CHANGEABLE = (
    *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit"),
    *("persistentVolumeClaimRetentionPolicy", "minReadySeconds"),
)
_PARTS = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
_STATEFUL_PARTS = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
_HEALTH = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
_PERCENT = re.compile("[0-9]+%")
_NOT_MATCHED = "`selector` does not match template `labels`"


class _ReplicasStrategy(WithSpec):
    """What the kinds have in common that keep a number of pods."""

    def selectable(self, document: Document) -> dict[str, str]:
        return {**super().selectable(document), "status.replicas": str(part(document, "status").get("replicas") or 0)}

    def prepare_create(self, document: Document) -> None:
        super().prepare_create(document)
        document["status"] = {"replicas": 0}

    def warnings(self, new: Document, old: Document | None) -> list[str]:
        if old is not None and new["metadata"].get("generation") == old["metadata"].get("generation"):
            return []
        return specification_warnings(part(part(new["spec"], "template"), "spec"), "spec.template.spec")


class ReplicationControllerStrategy(_ReplicasStrategy):
    """ReplicationControllers."""

    struct = "core/v1.ReplicationController"
    orphans_by_default = True

    def fill_in(self, document: Document) -> None:
        spec = document["spec"]
        ensure(spec, "replicas", 1)
        if spec.get("template") is None:
            return
        default_template(spec["template"])
        labels = part(spec["template"], "metadata").get("labels")
        if labels:
            ensure_filled(spec, "selector", dict(labels))
            ensure_filled(document["metadata"], "labels", dict(labels))

    def validate(self, document: Document) -> list[DocumentError]:
        spec = part(document, "spec")
        found = finalizer_errors(document) + _count_errors(spec, "spec", ("minReadySeconds", "replicas"))
        selector, template = part(spec, "selector"), spec.get("template")
        if not selector:
            found.append(required("spec.selector"))
        if template is None:
            return [*found, required("spec.template")]
        labels = part(part(template, "metadata"), "labels")
        if selector and any(labels.get(key) != value for key, value in selector.items()):
            found.append(wrong("spec.template.metadata.labels", labels or None, _NOT_MATCHED))
        return found + template_errors(template, "spec.template") + _restart_errors(template)

    def validate_update(self, new: Document, old: Document, subresource: str) -> list[DocumentError]:  # noqa: ARG002
        return _status_errors(new, _PARTS, "readyReplicas") if subresource == "status" else self.validate(new)


class ReplicaSetStrategy(_ReplicasStrategy):
    """ReplicaSets."""

    struct = "apps/v1.ReplicaSet"

    def fill_in(self, document: Document) -> None:
        ensure(document["spec"], "replicas", 1)
        default_template(document["spec"]["template"])

    def validate(self, document: Document) -> list[DocumentError]:
        spec = part(document, "spec")
        found = finalizer_errors(document) + _count_errors(spec, "spec", ("replicas", "minReadySeconds"))
        # The text of the real server.
        found += _selector_errors(spec, "deployment") + _template_errors(spec, "invalid label selector")
        return found + _restart_errors(part(spec, "template"))

    def validate_update(self, new: Document, old: Document, subresource: str) -> list[DocumentError]:
        if subresource == "status":
            return _status_errors(new, _PARTS, "readyReplicas")
        before, after = (part(one, "spec").get("selector") for one in (old, new))
        return self.validate(new) + immutable_errors(after, before, "spec.selector")


class StatefulSetStrategy(_ReplicasStrategy):
    """StatefulSets."""

    struct = "apps/v1.StatefulSet"
    name_rule = staticmethod(names.label)

    def selectable(self, document: Document) -> dict[str, str]:
        found = super().selectable(document)
        del found["status.replicas"]
        return found

    def fill_in(self, document: Document) -> None:
        spec = document["spec"]
        ensure_filled(spec, "podManagementPolicy", "OrderedReady")
        strategy = spec["updateStrategy"]
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
            ensure(strategy, "rollingUpdate", {})
        if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
            ensure(strategy["rollingUpdate"], "partition", 0)
        ensure(spec, "persistentVolumeClaimRetentionPolicy", {})
        for field in ("whenDeleted", "whenScaled"):
            ensure_filled(spec["persistentVolumeClaimRetentionPolicy"], field, "Retain")
        ensure(spec, "replicas", 1)
        ensure(spec, "revisionHistoryLimit", 10)
        default_template(spec["template"])
        for claim in entries(spec, "volumeClaimTemplates"):
            claim.setdefault("apiVersion", "v1")
            claim.setdefault("kind", "PersistentVolumeClaim")
            default_claim_spec(claim["spec"])
            ensure_filled(claim["status"], "phase", "Pending")

    def prepare_create(self, document: Document) -> None:
        super().prepare_create(document)
        document["status"]["availableReplicas"] = 0
        _drop_gated(document)

    def prepare_update(self, new: Document, old: Document, subresource: str) -> None:
        if not subresource:
            _drop_gated(new)
        super().prepare_update(new, old, subresource)

    def validate(self, document: Document) -> list[DocumentError]:
        return self._errors(document, named=True)

    def validate_update(self, new: Document, old: Document, subresource: str) -> list[DocumentError]:
        if subresource == "status":
            return _status_errors(new, _STATEFUL_PARTS, "status.readyReplicas")
        found = self._errors(new, named=False)
        before, after = (
            {name: value for name, value in part(one, "spec").items() if name not in _CHANGEABLE} for one in (old, new)
        )
        if not same(after, before):
            *first, last = (f"'{name}'" for name in _CHANGEABLE)
            found.append(
                not_allowed(
                    "spec",
                    f"updates to statefulset spec for fields other than {', '.join(first)} and {last} are forbidden",
                )
            )
        return found

    def _errors(self, document: Document, *, named: bool) -> Errors:
        spec = part(document, "spec")
        found = finalizer_errors(document)
        if spec.get("podManagementPolicy") not in _ORDERS:
            text = "must be 'OrderedReady' or 'Parallel'"
            found.append(wrong("spec.podManagementPolicy", spec.get("podManagementPolicy"), text))
        strategy = part(spec, "updateStrategy")
        if strategy.get("type") == "OnDelete" and strategy.get("rollingUpdate") is not None:
            text = "only allowed for updateStrategy 'RollingUpdate'"
            found.append(wrong("spec.updateStrategy.rollingUpdate", strategy["rollingUpdate"], text))
        elif strategy.get("type") not in ("RollingUpdate", "OnDelete"):
            found.append(wrong("spec.updateStrategy", strategy, "must be 'RollingUpdate' or 'OnDelete'"))
        rolling = part(strategy, "rollingUpdate")
        found += negative_errors(rolling.get("partition"), "spec.updateStrategy.rollingUpdate.partition")
        policy, where = part(spec, "persistentVolumeClaimRetentionPolicy"), "spec.persistentVolumeClaimRetentionPolicy"
        for field in ("whenDeleted", "whenScaled"):
            found += choice_errors(policy.get(field), f"{where}.{field}", _RETENTION, sort=False)
        found += _count_errors(spec, "spec", ("replicas", "minReadySeconds"))
        found += negative_errors(part(spec, "ordinals").get("start"), "spec.ordinals.start")
        if named and spec.get("serviceName"):
            found += name_errors(spec["serviceName"], "spec.serviceName", names.label)
        found += _selector_errors(spec, "statefulset") + _template_errors(_as_run(spec), "")
        found += _restart_errors(part(spec, "template"))
        if part(part(spec, "template"), "spec").get("activeDeadlineSeconds") is not None:
            text = "activeDeadlineSeconds in StatefulSet is not Supported"
            found.append(not_allowed("spec.template.spec.activeDeadlineSeconds", text))
        return found


def _drop_gated(document: Document) -> None:
    """Take out the field of a feature that is off by default."""
    part(document["spec"]["updateStrategy"], "rollingUpdate").pop("maxUnavailable", None)


def _as_run(spec: Document) -> Document:
    """A StatefulSet's spec with what its controller sets in each pod: names, and volumes from the claim templates."""
    made = copy.deepcopy(spec)
    pod = part(part(made, "template"), "spec")
    for field in ("subdomain", "hostname"):
        pod.pop(field, None)
    claims = [part(claim, "metadata").get("name") or "" for claim in entries(spec, "volumeClaimTemplates")]
    if claims:
        volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
        pod["volumes"] = volumes + [one for one in entries(pod, "volumes") if one.get("name") not in claims]
    return made


def _count_errors(document: Document, where: str, fields: tuple[str, ...]) -> Errors:
    return [error for field in fields for error in negative_errors(document.get(field), f"{where}.{field}")]


def _selector_errors(spec: Document, empty: str) -> Errors:
    selector = spec.get("selector")
    if selector is None:
        return [required("spec.selector")]
    found = selector_errors(selector, "spec.selector")
    if not part(selector, "matchLabels") and not entries(selector, "matchExpressions"):
        found.append(wrong("spec.selector", selector, f"empty selector is invalid for {empty}"))
    return found


def _template_errors(spec: Document, unreadable: str) -> Errors:
    template, selector = part(spec, "template"), spec.get("selector")
    labels = part(part(template, "metadata"), "labels")
    try:
        matches = label_selector_of(selector)
    except SelectorError:
        return [wrong("spec.selector", selector, unreadable)]
    found: Errors = []
    if matches is None or not matches.matches(labels):
        found.append(wrong("spec.template.metadata.labels", labels or None, _NOT_MATCHED))
    return found + template_errors(template, "spec.template")


def _restart_errors(template: Document) -> Errors:
    policy = part(template, "spec").get("restartPolicy")
    return [] if policy == "Always" else [unsupported("spec.template.spec.restartPolicy", policy, ("Always",))]


def _status_errors(document: Document, parts: tuple[str, ...], ready: str) -> Errors:
    """Errors of counts of pods: none is negative, and no part is larger than the whole."""
    status = part(document, "status")
    found = _count_errors(status, "status", ("replicas", *parts, "observedGeneration"))
    values = {field: status.get(field) or 0 for field in ("replicas", *parts)}
    found += [
        wrong(f"status.{field}", values[field], "cannot be greater than status.replicas")
        for field in parts
        if values[field] > values["replicas"]
    ]
    if values["availableReplicas"] > values["readyReplicas"]:
        found.append(wrong("status.availableReplicas", values["availableReplicas"], f"cannot be greater than {ready}"))
    return found


class PodDisruptionBudgetStrategy(WithSpec):
    """PodDisruptionBudgets. Evictions do not ask them."""

    struct = "policy/v1.PodDisruptionBudget"
    unconditional_update = False

    def prepare_create(self, document: Document) -> None:
        super().prepare_create(document)
        document["status"] = dict.fromkeys(_HEALTH, 0)

    def validate(self, document: Document) -> list[DocumentError]:
        spec = part(document, "spec")
        found: Errors = finalizer_errors(document)
        least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
        if least is not None and most is not None:
            found.append(wrong("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
        for name, value in (("minAvailable", least), ("maxUnavailable", most)):
            if value is not None:
                found += _share_errors(value, f"spec.{name}")
        found += selector_errors(spec.get("selector"), "spec.selector")
        policy = spec.get("unhealthyPodEvictionPolicy")
        choices = ("AlwaysAllow", "IfHealthyBudget")
        if policy is not None and policy not in choices:
            found.append(unsupported("spec.unhealthyPodEvictionPolicy", policy, choices))
        return found

    def validate_update(self, new: Document, old: Document, subresource: str) -> list[DocumentError]:  # noqa: ARG002
        if subresource != "status":
            return self.validate(new)
        return _count_errors(part(new, "status"), "status", _HEALTH)


def _share_errors(value: Any, field: str) -> Errors:
    """Errors of a number of pods, or a percentage of them."""
    if isinstance(value, int):
        return negative_errors(value, field)
    if not _PERCENT.fullmatch(value):
        text = "a valid percent string must be a numeric string followed by an ending '%'"
        return [wrong(field, value, f"{text} (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')")]
    return [wrong(field, value, "must not be greater than 100%")] if int(value[:-1]) > 100 else []
