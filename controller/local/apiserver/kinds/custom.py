# SPDX-License-Identifier: Apache-2.0
"""Custom resources, by the schema of their version, and the definitions that have the schemas."""

from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import Any

import msgspec

from trainwright.api.conditions import set_condition
from trainwright.api.names import qualified
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.strategy import ResetFields, Strategy, set_or_drop
from trainwright.controller.local.apiserver.schema.crd import Schema, unknown_field
from trainwright.controller.local.apiserver.schema.definitions import (
    set_defaults,
    unrecognized_formats,
    validate_definition,
)
from trainwright.controller.local.apiserver.schema.metadata import decode_metadata
from trainwright.controller.local.types.errors import DocumentError
from trainwright.controller.local.values import quoted

_STANDARD_FINALIZERS = ("orphan", "foregroundDeletion", "kubernetes")
_EXACT = 2.0**53
"""Below this, a float with no fraction is exactly one integer."""


class CustomStrategy(Strategy):
    """The strategy of one version of a CustomResourceDefinition.

    Args:
        schema: `openAPIV3Schema` of the version; None where everything is kept as it is.
        has_status: whether `status` is written through its own endpoint.
    """

    unconditional_update = False

    def __init__(self, schema: Document | None, *, has_status: bool) -> None:
        self._source = schema
        self._has_status = has_status
        self._excused: tuple[Document | None, list[DocumentError]] = (None, [])
        """The object whose errors were asked for last, and the forgiven ones, of which the client is warned."""

    @cached_property
    def _schema(self) -> Schema | None:
        """Compiled when first needed: it takes a while, and many kinds of a short-lived cluster have no object."""
        return None if self._source is None else Schema(self._source)

    def drop_unknown(self, document: Document) -> list[str]:
        dropped: list[str] = []
        if "metadata" in document:
            document["metadata"], unknown = decode_metadata(document["metadata"])
            dropped += [f"metadata.{path}" for path in unknown]
        if self._schema is not None:
            dropped += self._schema.prune(document)
        return [unknown_field(path) for path in dropped]

    def default(self, document: Document) -> None:
        _write_whole_numbers(document)
        if self._schema is not None:
            self._schema.default(document)

    def prepare_for_create(self, document: Document) -> None:
        if self._has_status:
            document.pop("status", None)
        document["metadata"]["generation"] = 1

    def prepare_for_update(self, new: Document, old: Document, subresource: str) -> None:
        if subresource == "status":
            status, managed = new.get("status"), new["metadata"].get("managedFields")
            version = new["metadata"].get("resourceVersion")
            new.clear()
            new.update({**old, "metadata": dict(old["metadata"])})
            set_or_drop(new, "status", status)
            set_or_drop(new["metadata"], "managedFields", managed)
            set_or_drop(new["metadata"], "resourceVersion", version)
            return
        if self._has_status:
            set_or_drop(new, "status", old.get("status"))
        if _desired(new, with_status=not self._has_status) != _desired(old, with_status=not self._has_status):
            new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1

    def warnings(self, new: Document, old: Document | None) -> list[str]:
        before = set(((old or {}).get("metadata") or {}).get("finalizers") or ())
        added = sorted(set(new["metadata"].get("finalizers") or ()) - before)
        judged, excused = self._excused
        forgiven = [str(error) for error in excused] if judged is new else []
        return [*forgiven, *(text for name in added for text in _finalizer_warnings(name))]

    def errors(
        self, known: list[DocumentError], new: Document, old: Document | None, subresource: str
    ) -> list[DocumentError]:
        if self._schema is None:
            return known
        excused: list[DocumentError] = []
        self._excused = new, excused
        return self._schema.validate(new, old, status=subresource == "status", known=known, excused=excused)


def _finalizer_warnings(name: str) -> list[str]:
    field = f"metadata.finalizers: {quoted(name)}"
    found = [f"{field}: {text}" for text in qualified(name)]
    if "/" not in name and name not in _STANDARD_FINALIZERS:
        path = " including a path (/)" if "." in name else ""
        found.append(
            f"{field}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other "
            "finalizer writers"
        )
    return found


def _desired(document: Document, *, with_status: bool) -> Document:
    dropped = ("metadata",) if with_status else ("metadata", "status")
    return {name: value for name, value in document.items() if name not in dropped}


def _write_whole_numbers(value: Any) -> None:
    """Make integers of floats without a fraction, as the JSON of Go does: `1.0` becomes `1`."""
    entries: Iterable[tuple[Any, Any]] = value.items() if type(value) is dict else enumerate(value)
    for key, inner in entries:
        if type(inner) is float:
            if inner.is_integer() and abs(inner) < _EXACT:
                value[key] = int(inner)
        elif type(inner) is dict or type(inner) is list:
            _write_whole_numbers(inner)


CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer under which the objects of a definition are deleted before it."""


PENDING = "InstanceDeletionPending"
"""The reason of the condition Terminating until the objects of a definition are being deleted."""


def set_terminating(document: Document, reason: str, message: str, moment: str) -> None:
    """Say in the condition Terminating how far the deletion is."""
    state = document.get("status") or {}
    condition = {"type": "Terminating", "status": "True", "reason": reason, "message": message}
    document["status"] = {**state, "conditions": set_condition(state.get("conditions"), condition, at=moment)}


class DefinitionStrategy(Strategy):
    """The strategy of CustomResourceDefinitions."""

    unconditional_update = False
    marks_time_only = True
    reset_fields: ResetFields = {"": (("status",),), "status": (("spec",),)}  # noqa: RUF012 - never changed

    def default(self, document: Document) -> None:
        set_defaults(document)

    def prepare_for_create(self, document: Document) -> None:
        document["metadata"]["generation"] = 1
        names = {"plural": "", "kind": ""}
        document["status"] = {"conditions": None, "acceptedNames": names, "storedVersions": _storage(document)}

    def prepare_for_update(self, new: Document, old: Document, subresource: str) -> None:
        if subresource == "status":
            set_or_drop(new, "spec", old.get("spec"))
            return
        set_or_drop(new, "status", old.get("status"))
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1
        stored = (new.get("status") or {}).get("storedVersions") or []
        if missing := [name for name in _storage(new) if name not in stored]:
            new["status"] = {**(new.get("status") or {}), "storedVersions": [*stored, *missing]}

    def begin_deletion(self, document: Document) -> None:
        finalizers = document["metadata"].get("finalizers") or []
        if CLEANUP not in finalizers:
            document["metadata"]["finalizers"] = [*finalizers, CLEANUP]
        text = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        set_terminating(document, PENDING, text, document["metadata"]["deletionTimestamp"])

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


def _storage(definition: Document) -> list[str]:
    """The version in which objects are stored, if there is one."""
    return [version["name"] for version in definition["spec"].get("versions") or () if version.get("storage")][:1]


@lru_cache(maxsize=32)
def _format_warnings(versions: bytes) -> tuple[str, ...]:
    """Remembered, because the same definitions are installed in each server of a process."""
    found: dict[str, None] = {}
    for version in msgspec.json.decode(versions):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        for name in unrecognized_formats(schema) if schema else ():
            found[f'unrecognized format "{name}"'] = None
    return tuple(found)
