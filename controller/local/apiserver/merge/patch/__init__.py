# SPDX-License-Identifier: Apache-2.0
"""The patch types of the API server, but for apply: from a document and a patch to a document.

- `json_patch`, `merge_patch` and `strategic_merge_patch` leave their inputs alone.
- `read_merge_patch` and `read_strategic_patch` decode bodies with the error texts of their types.
- `PatchError` is what a client is answered; `errors` has the tree.

Warnings of strict decoding (duplicate keys, unknown members of a JSON patch's operations) are not found here.
"""

from trainwright.controller.local.apiserver.merge.patch.errors import (
    BrokenPatchError,
    MalformedPatchError,
    PatchError,
    UnappliedPatchError,
)
from trainwright.controller.local.apiserver.merge.patch.merging import merge_patch
from trainwright.controller.local.apiserver.merge.patch.operations import json_patch, operation_count
from trainwright.controller.local.apiserver.merge.patch.reading import read_json, read_merge_patch, read_strategic_patch
from trainwright.controller.local.apiserver.merge.patch.strategic import strategic_merge_patch

__all__ = [
    "BrokenPatchError",
    "MalformedPatchError",
    "PatchError",
    "UnappliedPatchError",
    "json_patch",
    "merge_patch",
    "operation_count",
    "read_json",
    "read_merge_patch",
    "read_strategic_patch",
    "strategic_merge_patch",
]
