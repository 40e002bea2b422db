# SPDX-License-Identifier: Apache-2.0
"""The strategy of all built-in kinds that nothing here acts on: what was recorded of a kind is done."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from trainwright.api.objects import Document
from trainwright.api.selectors import SelectorError, label_selector_of
from trainwright.api.validation import DocumentError, names
from trainwright.controller.local.apiserver.kinds.builtin.checks import status_errors
from trainwright.controller.local.apiserver.kinds.builtin.defaulting import held_structs
from trainwright.controller.local.apiserver.kinds.builtin.formats import Errors, finalizer_errors, same, selector_errors
from trainwright.controller.local.apiserver.kinds.builtin.parts import part
from trainwright.controller.local.apiserver.kinds.builtin.pods.defaults import default_template
from trainwright.controller.local.apiserver.kinds.builtin.pods.specification import template_errors
from trainwright.controller.local.apiserver.kinds.builtin.pods.warnings import specification_warnings
from trainwright.controller.local.apiserver.kinds.builtin.strategy import NAME_RULES, BuiltInStrategy
from trainwright.controller.local.apiserver.kinds.metadata import IMMUTABLE
from trainwright.controller.local.apiserver.schema.errors import forbidden, invalid, not_supported, required
from trainwright.controller.local.apiserver.schema.published import published_models
from trainwright.controller.local.apiserver.schema.published.kinds import RecordedKind, RecordedRule
from trainwright.controller.local.gowriting import rewrite

Check = Callable[[Document], Errors]
Place = tuple[str, Any]
"""Where something is, such as `spec.rules[0].host`, and what is there."""

_TEMPLATE = "io.k8s.api.core.v1.PodTemplateSpec"
_SELECTOR = "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"
_INDEX = re.compile(r"\[\d+\]")
FORMATS: Mapping[str, Callable[[str], list[str]]] = {
    **NAME_RULES,
    "qualified": names.qualified,
    "label_value": names.label_value,
}
"""Formats of texts by their names in the table."""


class RecordedStrategy(BuiltInStrategy):
    """A kind by its row in the table.

    Args:
        kind: the row.
        check: errors that no rule of single fields finds.
        complete: fills in what hangs on more than one field, before the recorded defaults.
        as_run: the object with what its controller adds to the pods that it makes.
    """

    def __init__(
        self,
        kind: RecordedKind,
        check: Check | None = None,
        complete: Callable[[Document], None] | None = None,
        as_run: Callable[[Document], Document] | None = None,
    ) -> None:
        super().__init__(kind)
        self._check, self._complete, self._as_run = check, complete, as_run
        self._templates = tuple(_paths_to(kind.model, _TEMPLATE))
        self._selectors = tuple(_paths_to(kind.model, _SELECTOR))

    def default(self, document: Document) -> None:
        if self._complete is not None:
            rewrite(document, self.struct)
            self._complete(document)
        super().default(document)

    def fill_in(self, document: Document) -> None:
        for path in self._templates:
            for _, template in places(document, path):
                if isinstance(template, dict):
                    default_template(template)

    def validate(self, document: Document) -> list[DocumentError]:
        found = finalizer_errors(document)
        for rule in self.kind.rules:
            found += value_errors(rule, document)
        for path in self._selectors:
            for where, selector in places(document, path):
                found += selector_errors(selector, where)
        for path in self._templates:
            for where, template in places(document if self._as_run is None else self._as_run(document), path):
                if template is not None:
                    found += template_errors(template, where)
        if "spec.template" in self._templates:
            found += _unmatched_errors(document)
        found += self._check(document) if self._check is not None else []
        return list({(error.reason, error.field): error for error in found}.values())

    def validate_update(self, new: Document, old: Document, subresource: str) -> list[DocumentError]:
        if subresource:
            return finalizer_errors(new) + (status_errors(new, self.struct) if subresource == "status" else [])
        return super().validate_update(new, old, subresource)

    def changes(self, new: Document, old: Document) -> Errors:
        return [error for rule in self.kind.rules for error in _change_errors(rule, new, old)]

    def warnings(self, new: Document, old: Document | None) -> list[str]:
        found: list[str] = []
        if old is not None and new["metadata"].get("generation") == old["metadata"].get("generation"):
            return found
        for path in self._templates:
            for where, template in places(new, path):
                found += specification_warnings(part(template or {}, "spec"), f"{where}.spec")
        return found


def _paths_to(model: str, wanted: str, prefix: str = "", around: tuple[str, ...] = ()) -> Iterator[str]:
    """The paths to all structs of a model within another; structs that hold themselves are entered once."""
    for name, held in held_structs(model).items():
        if not prefix and name in ("metadata", "status"):
            continue
        path = f"{prefix}{name}{'[*]' if _is_list(model, name) else ''}"
        if held == wanted:
            yield path
        elif held != _TEMPLATE and held not in around:
            yield from _paths_to(held, wanted, f"{path}.", (*around, held))


def _is_list(model: str, field: str) -> bool:
    return bool(published_models()[model]["properties"][field].get("type") == "array")


def places(document: Document, path: str) -> Iterator[Place]:
    """What is at a path. Where the last step leads nowhere, the place is there with None."""
    found: list[Place] = [("", document)]
    for step in path.split("."):
        name, each, _ = step.partition("[*]")
        inner: list[Place] = []
        for where, value in found:
            if not isinstance(value, dict):
                continue
            here, held = f"{where}.{name}" if where else name, value.get(name)
            if each:
                inner += [(f"{here}[{index}]", item) for index, item in enumerate(held or ())]
            else:
                inner.append((here, held))
        found = inner
    yield from found


def value_errors(rule: RecordedRule, document: Document) -> Errors:
    """Errors of the values at the path of a rule."""
    found: Errors = []
    for where, value in places(document, rule.path):
        refusal = _refusal(rule, value)
        if refusal:
            found.append(_error(refusal, where, value, rule))
    return found


def _refusal(rule: RecordedRule, value: Any) -> str:
    """Reason and field of the error that a value has; empty for a good one."""
    if value is None:
        return rule.absent
    if isinstance(value, bool):
        return ""
    if isinstance(value, int):
        return rule.negative if value < 0 else rule.zero if value == 0 else ""
    if not value:
        return rule.empty
    if isinstance(value, str) and rule.other:
        good = value in rule.choices if rule.choices else not FORMATS[rule.format](value)
        return "" if good else rule.other
    return ""


def _change_errors(rule: RecordedRule, new: Document, old: Document) -> Errors:
    if not rule.changed:
        return []
    before = dict(places(old, rule.path))
    return [
        _error(rule.changed, where, value, rule)
        for where, value in places(new, rule.path)
        if where in before and not same(_fixed(value, rule), _fixed(before[where], rule))
    ]


def _fixed(value: Any, rule: RecordedRule) -> Any:
    """A value without what may change."""
    if not rule.free or not isinstance(value, dict):
        return value
    return {key: inner for key, inner in value.items() if key not in rule.free}


def _error(refusal: str, where: str, value: Any, rule: RecordedRule) -> DocumentError:
    reason, _, pattern = refusal.partition(" ")
    field = pattern
    for index in _INDEX.findall(where):
        field = field.replace("[*]", index, 1)
    match reason:
        case "FieldValueRequired":
            return required(field)
        case "FieldValueForbidden":
            return forbidden(field, "updates may not change it" if refusal == rule.changed else "")
        case "FieldValueNotSupported":
            return not_supported(field, value, rule.choices)
    if refusal == rule.changed:
        return invalid(field, value, IMMUTABLE)
    if rule.choices:
        return invalid(field, value, f"must be one of {', '.join(rule.choices)}")
    problems = FORMATS[rule.format](value) if rule.format and isinstance(value, str) and value else []
    return invalid(field, value, problems[0] if problems else "is not valid here")._replace(reason=reason)


def _unmatched_errors(document: Document) -> Errors:
    """Errors of kinds that keep pods: the selector matches the labels of the template."""
    spec = part(document, "spec")
    selector, template = spec.get("selector"), spec.get("template")
    found = [required("spec.selector")] if selector is None else []
    if template is None or selector == {}:
        return found
    labels = part(part(template, "metadata"), "labels")
    text = "`selector` does not match template `labels`"
    unmatched = [invalid("spec.template.metadata.labels", labels or None, text)]
    if selector is None:
        return found + unmatched
    plain = not {"matchLabels", "matchExpressions"} & set(selector)
    try:
        matches = label_selector_of({"matchLabels": selector} if plain else selector)
    except SelectorError:
        return [invalid("spec.selector", selector, "cannot be read")]
    return [] if matches is not None and matches.matches(labels) else unmatched
