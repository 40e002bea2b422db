# SPDX-License-Identifier: Apache-2.0
"""Which objects of a kind a cache holds.

The server filters by namespace and selectors; the same filter is applied here to the answers of our own writes, which
do not come through the watch.
"""

from dataclasses import dataclass
from functools import cached_property

from trainwright.controller.runtime.objects import AnyObject, labels_of, namespace_of
from trainwright.controller.runtime.selectors import LabelSelector, parse_label_selector


@dataclass(frozen=True)
class Scope:
    """A namespace (empty: all) and selectors in their string form (empty: no limit)."""

    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""

    @cached_property
    def _labels(self) -> LabelSelector:
        return parse_label_selector(self.label_selector)

    def admits(self, obj: AnyObject) -> bool | None:
        """Whether the object belongs in; None if only the server could say (field selectors)."""
        if self.namespace and namespace_of(obj) != self.namespace:
            return False
        if not self._labels.matches(labels_of(obj)):
            return False
        return None if self.field_selector else True

    def __str__(self) -> str:
        parts = [f"namespace {self.namespace}" if self.namespace else "all namespaces"]
        parts += [selector for selector in (self.label_selector, self.field_selector) if selector]
        return ", ".join(parts)
