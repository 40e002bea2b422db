# SPDX-License-Identifier: Apache-2.0
"""Changes objects on their way into a cache, so that unused fields take no memory.

A transform may change the object, which is new, or return None to keep it out. It must be idempotent, because answers
of writes also pass through it.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from trainwright.api.objects import AnyObject
from trainwright.controller.runtime.cache.fields import pack

Transform: TypeAlias = Callable[[Any], AnyObject | None]

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def trim_managed_fields(keep: Iterable[str] = ()) -> Transform:
    """Drop the managedFields entries of all other managers, and kubectl's last-applied annotation.

    Of the kept managers only what they applied stays: fields that an update or a patch wrote are never compared.
    Read the kept entries only with `api.objects.managed_fields_of`: their trees are in a compact form.
    """
    managers = frozenset(keep)

    def transform(obj: AnyObject) -> AnyObject:
        if isinstance(obj, dict):
            metadata = obj.get("metadata") or {}
            if entries := metadata.get("managedFields"):
                kept = [e for e in entries if e.get("manager") in managers and e.get("operation") == "Apply"]
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
                entries = [e for e in metadata.managed_fields if e.manager in managers and e.operation == "Apply"]
                for entry in entries:
                    entry.fields_v1 = pack(entry.fields_v1 or {})
                metadata.managed_fields = entries or None
            if metadata.annotations:
                metadata.annotations.pop(LAST_APPLIED, None)
        return obj

    return transform


def chain(transforms: Iterable[Transform]) -> Transform | None:
    """One transform that applies all in order and stops at the first None. None if there are no transforms."""
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
