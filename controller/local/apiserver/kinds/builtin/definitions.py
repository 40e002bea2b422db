# SPDX-License-Identifier: Apache-2.0
"""CustomResourceDefinitions."""

from functools import lru_cache

import msgspec

from trainwright.api.objects import Document
from trainwright.api.validation import DocumentError
from trainwright.controller.local.apiserver.kinds.strategy import ResetFields, Strategy, set_or_drop
from trainwright.controller.local.apiserver.schema.definition import (
    set_defaults,
    unrecognized_formats,
    validate_definition,
)

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer under which the objects of a definition are deleted before it."""


def set_terminating(document: Document, status: str, reason: str, message: str, moment: str) -> None:
    """Say in the condition Terminating how far the deletion is."""
    state = document["status"] = dict(document.get("status") or {})
    condition = {"type": "Terminating", "status": status}
    before = [one for one in state.get("conditions") or () if one["type"] == "Terminating"]
    if before and before[0]["status"] == status:
        moment = before[0]["lastTransitionTime"]
    condition |= {"lastTransitionTime": moment, "reason": reason, "message": message}
    others = [one for one in state.get("conditions") or () if one["type"] != "Terminating"]
    state["conditions"] = [*others, condition]


class DefinitionStrategy(Strategy):
    """The strategy of CustomResourceDefinitions."""

    unconditional_update = False
    marks_time_only = True
    reset_fields: ResetFields = {"": (("status",),), "status": (("spec",),)}  # noqa: RUF012 - never changed

    def default(self, document: Document) -> None:
        set_defaults(document)

    def prepare_for_create(self, document: Document) -> None:
        document["metadata"]["generation"] = 1
        storage = [version["name"] for version in document["spec"].get("versions") or () if version.get("storage")]
        document["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": storage[:1],
        }

    def prepare_for_update(self, new: Document, old: Document, subresource: str) -> None:
        if subresource == "status":
            set_or_drop(new, "spec", old.get("spec"))
            return
        set_or_drop(new, "status", old.get("status"))
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1
        storage = [version["name"] for version in new["spec"].get("versions") or () if version.get("storage")]
        stored = (new.get("status") or {}).get("storedVersions") or []
        if missing := [name for name in storage[:1] if name not in stored]:
            new["status"] = {**(new.get("status") or {}), "storedVersions": [*stored, *missing]}

    def begin_deletion(self, document: Document) -> None:
        finalizers = document["metadata"].get("finalizers") or []
        if CLEANUP not in finalizers:
            document["metadata"]["finalizers"] = [*finalizers, CLEANUP]
        set_terminating(
            document,
            "True",
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
            document["metadata"]["deletionTimestamp"],
        )

    def is_held(self, document: Document) -> bool:
        # Until the first deletion, which adds the finalizer.
        return not document["metadata"].get("deletionTimestamp")

    def errors(
        self, known: list[DocumentError], new: Document, old: Document | None, subresource: str
    ) -> list[DocumentError]:
        if subresource == "status":
            return known
        found = validate_definition(new, old)
        return found if old is None else [*known, *found]

    def warnings(self, new: Document, old: Document | None) -> list[str]:  # noqa: ARG002
        return list(_format_warnings(msgspec.json.encode(new["spec"].get("versions") or ())))


@lru_cache(maxsize=32)
def _format_warnings(versions: bytes) -> tuple[str, ...]:
    """Remembered, because the same definitions are installed in each server of a process."""
    found: dict[str, None] = {}
    for version in msgspec.json.decode(versions):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        for name in unrecognized_formats(schema) if schema else ():
            found[f'unrecognized format "{name}"'] = None
    return tuple(found)
