# SPDX-License-Identifier: Apache-2.0
"""Selectors of lists and watches, compiled to predicates.

- `parse_label_selector` and `parse_field_selector` read query parameters, `label_selector_of` the selectors of specs.
- `selectable_fields` and `custom_selectable_fields` say which field labels a kind supports.
- `SelectorError` is what a client is answered, 400.
"""

from trainwright.controller.local.apiserver.views.selection.fields import (
    FieldSelector,
    SelectableFields,
    custom_selectable_fields,
    parse_field_selector,
    selectable_fields,
)
from trainwright.controller.local.apiserver.views.selection.labels import (
    LabelMatcher,
    SelectorError,
    label_selector_of,
    parse_label_selector,
)

__all__ = [
    "FieldSelector",
    "LabelMatcher",
    "SelectableFields",
    "SelectorError",
    "custom_selectable_fields",
    "label_selector_of",
    "parse_field_selector",
    "parse_label_selector",
    "selectable_fields",
]
