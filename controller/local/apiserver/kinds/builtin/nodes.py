# SPDX-License-Identifier: Apache-2.0
"""Nodes, RuntimeClasses and Leases."""

import ipaddress

from trainwright.api.objects import Document
from trainwright.api.validation import DocumentError, names
from trainwright.controller.local.apiserver.kinds.builtin import amounts
from trainwright.controller.local.apiserver.kinds.builtin.formats import (
    Errors,
    choice_errors,
    immutable_errors,
    label_errors,
    name_errors,
    negative_errors,
    qualified_errors,
)
from trainwright.controller.local.apiserver.kinds.builtin.parts import entries, part, texts
from trainwright.controller.local.apiserver.kinds.builtin.pods.placement import EFFECTS, toleration_errors
from trainwright.controller.local.apiserver.kinds.builtin.pods.requirements import quantity_errors, requirement_errors
from trainwright.controller.local.apiserver.kinds.builtin.strategy import BuiltInStrategy
from trainwright.controller.local.apiserver.schema.errors import duplicate, forbidden, invalid, required


class NodeStrategy(BuiltInStrategy):
    """Nodes. A creation may say the status."""

    def fill_in(self, document: Document) -> None:
        spec, status = document["spec"], document["status"]
        single, plural = spec.get("podCIDR"), texts(spec, "podCIDRs")
        if single and (not plural or plural[0] != single):
            spec["podCIDRs"] = [single]
        elif plural:
            spec["podCIDR"] = plural[0]
        if status.get("capacity") and status.get("allocatable") is None:
            status["allocatable"] = dict(status["capacity"])
        amounts.round_up(status, "capacity")
        amounts.round_up(status, "allocatable")

    def prepare_for_create(self, document: Document) -> None:
        document["spec"].pop("configSource", None)
        document["status"].pop("config", None)

    def prepare_for_update(self, new: Document, old: Document, subresource: str) -> None:
        super().prepare_for_update(new, old, subresource)
        if "configSource" not in part(old, "spec"):
            part(new, "spec").pop("configSource", None)

    def faults(self, document: Document) -> Errors:
        ranges = _range_errors(texts(document["spec"], "podCIDRs"))
        return _taint_errors(document) + _amount_errors(document) + ranges

    def validate_update(self, new: Document, old: Document, subresource: str) -> list[DocumentError]:
        found = super().validate_update(new, old, subresource) + _change_errors(new, old)
        return found + _amount_errors(new) + _taint_errors(new)

    def warnings(self, new: Document, old: Document | None) -> list[str]:  # noqa: ARG002
        spec = part(new, "spec")
        found: list[str] = []
        if spec.get("configSource") is not None:
            found.append("spec.configSource: the feature is removed")
        if spec.get("externalID"):
            found.append("spec.externalID: this field is deprecated, and is unused by Kubernetes")
        return found


def _taint_errors(node: Document) -> Errors:
    found: Errors = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(entries(part(node, "spec"), "taints")):
        # The real server says metadata.
        where = f"metadata.taints[{index}]"
        key, value, effect = (taint.get(name) or "" for name in ("key", "value", "effect"))
        found += qualified_errors(key, f"{where}.key")
        problems = names.label_value(value)
        if problems:
            found.append(invalid(f"{where}.value", value, ";".join(problems)))
        found += choice_errors(effect, f"{where}.effect", EFFECTS, sort=False)
        if (key, effect) in seen:
            error = duplicate(where, taint)
            found.append(error._replace(message=f"{error.message}: taints must be unique by key and effect pair"))
        seen.add((key, effect))
    return found


def _amount_errors(node: Document) -> Errors:
    found: Errors = []
    for field in ("capacity", "allocatable"):
        for name, amount in amounts.read(part(part(node, "status"), field)).items():
            found += quantity_errors(name, amount, f"status.{field}.{name}")
    return found


def _range_errors(ranges: list[str]) -> Errors:
    found: Errors = []
    for index, value in enumerate(ranges):
        try:
            ipaddress.ip_network(value, strict=False)
        except ValueError:
            text = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
            found.append(invalid(f"spec.podCIDRs[{index}]", value, text))
    if len(ranges) > 1 and sorted(":" in value for value in ranges) != [False, True]:
        text = "may specify no more than one CIDR for each IP family"
        found.append(invalid("spec.podCIDRs", ranges, text))
    return found


def _change_errors(new: Document, old: Document) -> Errors:
    spec, before = part(new, "spec"), part(old, "spec")
    found: Errors = []
    seen: list[Document] = []
    for index, address in enumerate(entries(part(new, "status"), "addresses")):
        if address in seen:
            found.append(duplicate(f"status.addresses[{index}]", address))
        seen.append(address)
    if before.get("podCIDRs") and spec.get("podCIDRs") != before["podCIDRs"]:
        text = 'node updates may not change podCIDR except from "" to valid'
        found.append(forbidden("spec.podCIDRs", text))
    if before.get("providerID") and spec.get("providerID") != before["providerID"]:
        text = 'node updates may not change providerID except from "" to valid'
        found.append(forbidden("spec.providerID", text))
    if (spec.get("externalID") or "") != (before.get("externalID") or ""):
        found.append(forbidden("spec.externalID", "may not be updated"))
    return found


class RuntimeClassStrategy(BuiltInStrategy):
    """RuntimeClasses."""

    def fill_in(self, document: Document) -> None:
        amounts.round_up(part(document, "overhead"), "podFixed")

    def faults(self, document: Document) -> Errors:
        handler = document.get("handler") or ""
        found = name_errors(handler, "handler", names.dns_label) if handler else [required("handler")]
        found += requirement_errors({"limits": part(part(document, "overhead"), "podFixed")}, "overhead", set())
        scheduling = part(document, "scheduling")
        found += label_errors(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
        return found + toleration_errors(entries(scheduling, "tolerations"), "scheduling.tolerations")

    def changes(self, new: Document, old: Document) -> Errors:
        return immutable_errors(new.get("handler"), old.get("handler"), "handler")


class LeaseStrategy(BuiltInStrategy):
    """Leases."""

    def validate(self, document: Document) -> list[DocumentError]:
        spec = part(document, "spec")
        duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        found: Errors = []
        if duration is not None and duration <= 0:
            found.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        return found + negative_errors(transitions, "spec.leaseTransitions")

    def prepare_for_create(self, document: Document) -> None:
        # Coordinated leader election is off by default.
        for field in ("strategy", "preferredHolder"):
            document["spec"].pop(field, None)

    def prepare_for_update(self, new: Document, old: Document, subresource: str) -> None:  # noqa: ARG002
        for field in ("strategy", "preferredHolder"):
            if part(old, "spec").get(field) is None:
                new["spec"].pop(field, None)
