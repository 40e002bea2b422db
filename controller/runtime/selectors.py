# SPDX-License-Identifier: Apache-2.0
"""Label selectors as options of callers.

Used where an object is matched without the server: for the answer of a write, which may or may not belong in a cache
with a selector, and for cached lists.
"""

from trainwright.api import selectors
from trainwright.controller.runtime.errors import ConfigurationError


def parse_label_selector(text: str) -> selectors.LabelMatcher:
    """Parse a selector such as `app=web,tier in (a,b),!old`. Raises ConfigurationError that quotes the wrong term."""
    try:
        return selectors.parse_label_selector(text)
    except selectors.SelectorError as error:
        raise ConfigurationError(f"label selector: {error}") from error
