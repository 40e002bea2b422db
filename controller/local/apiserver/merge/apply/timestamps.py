# SPDX-License-Identifier: Apache-2.0
"""Writes that would change nothing but the times of managed fields."""

from typing import Any

from trainwright.controller.local.apiserver.merge.apply.owners import entries_of
from trainwright.controller.local.apiserver.merge.apply.values import equal
from trainwright.controller.local.apiserver.merge.apply.versions import Document


def without_new_times(old: Document, new: Document) -> Document:
    """The new object, with the old times if nothing else changed; then there is nothing to write.

    Such objects come from an apply that only differs by what defaults set again.

    Args:
        old: the stored object.
        new: what is to be stored, complete, with the old one's resourceVersion.
    """
    before, after = entries_of(old), entries_of(new)
    if not before or not after or before == after or len(before) != len(after):
        return new
    if not all(equal(_timeless(left), _timeless(right)) for left, right in zip(before, after, strict=True)):
        return new
    restored = {**new, "metadata": {**new["metadata"], "managedFields": before}}
    return restored if equal(old, restored) else new


def _timeless(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "time"}
