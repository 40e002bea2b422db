# SPDX-License-Identifier: Apache-2.0
"""The scope of a cache: which objects of a kind it holds.

The server filters by namespace and selectors. The same filter is applied here to the answers of own writes, which do
not come through the watch.
"""

from dataclasses import dataclass
from functools import cached_property

from trainwright.api.objects import AnyObject, labels_of, namespace_of
from trainwright.controller.runtime.selectors import LabelSelector, parse_label_selector


@dataclass(frozen=True)
class CacheScope:
    """A namespace (empty: all) and selectors in string form (empty: no limit)."""

    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""

    @cached_property
    def _labels(self) -> LabelSelector:
        return parse_label_selector(self.label_selector)

    def admits(self, obj: AnyObject) -> bool | None:
        """Whether the object is in scope; None if only the server knows (field selectors)."""
        if self.namespace and namespace_of(obj) != self.namespace:
            return False
        if not self._labels.matches(labels_of(obj)):
            return False
        return None if self.field_selector else True

    def __str__(self) -> str:
        parts = [f"namespace {self.namespace}" if self.namespace else "all namespaces"]
        parts += [selector for selector in (self.label_selector, self.field_selector) if selector]
        return ", ".join(parts)
