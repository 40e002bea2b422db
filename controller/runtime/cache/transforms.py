# SPDX-License-Identifier: Apache-2.0
"""What is done to an object on its way into a cache, so that what nobody reads is not kept (R-62, R-63, R-82).

A transform may change the object, which is fresh, or give None to keep it out. It must be idempotent, because answers
of writes pass through it as well.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from trainwright.controller.runtime.cache.fields import pack
from trainwright.controller.runtime.objects import AnyObject

Transform: TypeAlias = Callable[[Any], AnyObject | None]

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def trim_managed_fields(keep: Iterable[str] = ()) -> Transform:
    """Drop the managedFields entries of everybody but the named managers, and kubectl's copy of the manifest.

    What is kept of managedFields is read with `objects.managed_fields_of` only: its trees are in a small form.
    """
    managers = frozenset(keep)

    def transform(obj: AnyObject) -> AnyObject:
        if isinstance(obj, dict):
            metadata = obj.get("metadata") or {}
            if entries := metadata.get("managedFields"):
                kept = [entry for entry in entries if entry.get("manager") in managers]
                if kept:
                    for entry in kept:
                        entry["fieldsV1"] = pack(entry.get("fieldsV1") or {})
                    metadata["managedFields"] = kept
                else:
                    del metadata["managedFields"]
            (metadata.get("annotations") or {}).pop(LAST_APPLIED, None)
            return obj
        metadata = getattr(obj, "metadata", None)
        if metadata is not None:
            if metadata.managed_fields:
                entries = [e for e in metadata.managed_fields if e.manager in managers]
                for entry in entries:
                    entry.fields_v1 = pack(entry.fields_v1 or {})
                metadata.managed_fields = entries or None
            if metadata.annotations:
                metadata.annotations.pop(LAST_APPLIED, None)
        return obj

    return transform


def chain(transforms: Iterable[Transform]) -> Transform | None:
    """One transform that applies all in order and stops at the first None; None for no transforms."""
    steps = tuple(transforms)
    if not steps:
        return None
    if len(steps) == 1:
        return steps[0]

    def transform(obj: AnyObject) -> AnyObject | None:
        current: AnyObject | None = obj
        for step in steps:
            if current is None:
                return None
            current = step(current)
        return current

    return transform
