# SPDX-License-Identifier: Apache-2.0
"""How two versions of a specification differ, for messages about immutable fields.

The real server compares its internal structs, with their field names in Go's order. Here the fields are those of the
wire, sorted, so the lines of the difference are not the same.
"""

import difflib
import json
from typing import Any


def difference(old: Any, new: Any) -> str:
    """A unified difference of two values as indented JSON."""
    before, after = (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) for value in (old, new))
    # The last line has a line end too: Go's difflib adds it.
    lines = difflib.unified_diff(
        (before + "\n").splitlines(keepends=True), (after + "\n").splitlines(keepends=True), n=3
    )
    # Names of files are not given.
    return "".join(line for number, line in enumerate(lines) if number > 1)
