# SPDX-License-Identifier: Apache-2.0
"""How two versions of a specification differ, for messages about immutable fields."""

import difflib

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.fields import as_go_json
from trainwright.controller.local.gowriting import internal


def difference(old: Document, new: Document, struct: str) -> str:
    """A unified difference of two documents as internal structs, in indented JSON.

    Args:
        old, new: in the form in which they are stored.
        struct: as of `internal`.
    """
    before, after = (as_go_json(internal(one, struct), indented=True) for one in (old, new))
    # The last line has a line end too: Go's difflib adds it.
    lines = difflib.unified_diff(
        (before + "\n").splitlines(keepends=True), (after + "\n").splitlines(keepends=True), n=3
    )
    # Names of files are not given.
    return "".join(line for number, line in enumerate(lines) if number > 1)
