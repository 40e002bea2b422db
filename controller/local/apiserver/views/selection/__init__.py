# SPDX-License-Identifier: Apache-2.0
"""Selectors of lists and watches, compiled to predicates.

- `parse_label_selector` and `parse_field_selector` read query parameters, `label_selector_of` the selectors of specs.
- `selectable_fields` and `custom_selectable_fields` say which field labels a kind supports.
- `SelectorError` is what a client is answered, 400.
"""

from trainwright.controller.local.apiserver.views.selection.errors import SelectorError
from trainwright.controller.local.apiserver.views.selection.fields import (
    FieldSelector,
    SelectableFields,
    custom_selectable_fields,
    parse_field_selector,
    selectable_fields,
)
from trainwright.controller.local.apiserver.views.selection.labels import (
    LabelMatcher,
    LabelRequirement,
    label_selector_of,
    parse_label_selector,
)
from trainwright.controller.local.apiserver.views.selection.names import label_key_problems, label_value_problems

__all__ = [
    "FieldSelector",
    "LabelMatcher",
    "LabelRequirement",
    "SelectableFields",
    "SelectorError",
    "custom_selectable_fields",
    "label_key_problems",
    "label_selector_of",
    "label_value_problems",
    "parse_field_selector",
    "parse_label_selector",
    "selectable_fields",
]
