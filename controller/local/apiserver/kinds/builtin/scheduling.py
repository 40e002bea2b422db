# SPDX-License-Identifier: Apache-2.0
"""PriorityClasses and LimitRanges."""

from trainwright.api.objects import Document
from trainwright.api.surroundings import new_uid
from trainwright.api.validation import DocumentError
from trainwright.controller.local.apiserver.kinds.builtin import amounts
from trainwright.controller.local.apiserver.kinds.builtin.formats import (
    Errors,
    choice_errors,
    finalizer_errors,
    immutable_errors,
    qualified_errors,
    repeated,
)
from trainwright.controller.local.apiserver.kinds.builtin.parts import entries, part
from trainwright.controller.local.apiserver.kinds.builtin.strategy import BuiltInStrategy
from trainwright.controller.local.apiserver.schema.errors import forbidden, invalid

_SYSTEM_PREFIX = "system-"
_HIGHEST = 1_000_000_000
SYSTEM_CLASSES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
"""Preset classes with their priorities."""
_ORDERED = (
    *(("min", "max", "min"), ("min", "defaultRequest", "defaultRequest"), ("min", "default", "default")),
    *(("defaultRequest", "max", "defaultRequest"), ("defaultRequest", "default", "defaultRequest")),
    ("default", "max", "default"),
)
"""Which amounts may not be larger than which, and the field that an error is at."""
_LIMIT_TYPES = ("Pod", "Container", "PersistentVolumeClaim")


class PriorityClassStrategy(BuiltInStrategy):
    """PriorityClasses."""

    def faults(self, document: Document) -> Errors:
        return _class_errors(document)

    def validate_update(self, new: Document, old: Document, subresource: str) -> list[DocumentError]:  # noqa: ARG002
        found = finalizer_errors(new)
        if (new.get("value") or 0) != (old.get("value") or 0):
            found.append(forbidden("value", "may not be changed in an update."))
        return found + immutable_errors(new.get("preemptionPolicy"), old.get("preemptionPolicy"), "preemptionPolicy")


def _class_errors(document: Document) -> Errors:
    name, value = part(document, "metadata").get("name") or "", document.get("value") or 0
    found: Errors = []
    if name.startswith(_SYSTEM_PREFIX):
        problem = _system_problem(name, value, default=bool(document.get("globalDefault")))
        if problem:
            text = f"priority class names with '{_SYSTEM_PREFIX}' prefix are reserved for system use only"
            found.append(forbidden("metadata.name", f"{text}. error: {problem}"))
    elif value > _HIGHEST:
        found.append(forbidden("value", f"maximum allowed value of a user defined priority is {_HIGHEST}"))
    policies = ("PreemptLowerPriority", "Never")
    return found + choice_errors(document.get("preemptionPolicy"), "preemptionPolicy", policies, sort=False)


def _system_problem(name: str, value: int, *, default: bool) -> str:
    expected = SYSTEM_CLASSES.get(name)
    if expected is None:
        return f"{name} is not a known system priority class"
    if value != expected:
        return f"value of {name} PriorityClass must be {expected}"
    return f"globalDefault of {name} PriorityClass must be false" if default else ""


class LimitRangeStrategy(BuiltInStrategy):
    """LimitRanges."""

    def fill_in(self, document: Document) -> None:
        for item in entries(document["spec"], "limits"):
            if item.get("type") == "Container":
                _default_container_limits(item)
            for field in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
                amounts.round_up(item, field)

    def faults(self, document: Document) -> Errors:
        return _limit_range_errors(document)

    def prepare_for_create(self, document: Document) -> None:
        super().prepare_for_create(document)
        metadata = document["metadata"]
        if not metadata.get("name") and not metadata.get("generateName"):
            metadata["name"] = new_uid()


def _limit_range_errors(document: Document) -> Errors:
    found: Errors = []
    seen: set[str] = set()
    for index, item in enumerate(entries(part(document, "spec"), "limits")):
        where, kind = f"spec.limits[{index}]", item.get("type") or ""
        problems = qualified_errors(kind, f"{where}.type")
        if not problems and "/" not in kind and kind not in _LIMIT_TYPES:
            text = "must be a standard limit type or fully qualified"
            problems.append(invalid(f"{where}.type", kind, text))
        found += problems + repeated(seen, kind, f"{where}.type")
        if kind == "Pod":
            text = "may not be specified when `type` is 'Pod'"
            found += [forbidden(f"{where}.{name}", text) for name in ("default", "defaultRequest") if item.get(name)]
        for small, large, at in _ORDERED:
            found += _order_errors(item, small, large, f"{where}.{at}")
    return found


def _order_errors(item: Document, low: str, high: str, at: str) -> Errors:
    """Errors of amounts that may not be larger than others."""
    small, large = amounts.read(item.get(low)), amounts.read(item.get(high))
    return [
        invalid(f"{at}[{name}]", item[low][name], f"{low} is greater than {high}, which is {item[high][name]}")
        for name in small
        if name in large and small[name] > large[name]
    ]


def _default_container_limits(item: Document) -> None:
    limits = {**part(item, "max"), **part(item, "default")}
    requests = {**part(item, "min"), **limits, **part(item, "defaultRequest")}
    for field, value in (("default", limits), ("defaultRequest", requests)):
        if value:
            item[field] = value
