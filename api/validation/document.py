# SPDX-License-Identifier: Apache-2.0
"""Validates a document as an API server would."""

from collections.abc import Mapping
from typing import Any

import msgspec

from trainwright.api.base import Struct
from trainwright.api.validation import admission, rules, structure
from trainwright.api.validation.errors import BLOCKING, DUPLICATE, DocumentError, Path, shown
from trainwright.api.validation.schema import KindSchema, schemas


class NoSchemaError(ValueError):
    """No schema exists for the document, or it has no apiVersion and kind."""


class ValidationResult(msgspec.Struct, frozen=True, kw_only=True):
    """The answer that an API server would give."""

    stored: dict[str, Any]
    """The document with defaults and without unknown fields."""
    errors: list[DocumentError]
    """Empty when the document would be accepted."""
    dropped: list[str]
    """Paths of fields that the schema does not know, most often misspelled. The API server warns of them."""
    unchecked: list[str]
    """Rules that were not evaluated, because they need functions that only an API server has."""


def validate(
    document: Mapping[str, Any] | Struct, *, old: Mapping[str, Any] | Struct | None = None, subresource: str = ""
) -> ValidationResult:
    """Check a create, or with `old`, the stored document, an update. Raises `NoSchemaError`.

    Where the kind has a status subresource, a write to the main resource leaves the status as it was, and a write to
    `subresource="status"` leaves everything else.
    """
    given = _plain(document)
    kind = _schema(given)
    unchecked = rules.unchecked(kind)
    stored, dropped = admission.prepare(kind, given)
    before = admission.prepare(kind, _plain(old))[0] if old is not None else None
    if kind.has_status:
        stored = _with_status_apart(stored, before or {}, subresource)
    found = structure.schema_errors(kind, stored)
    if kind.served and not any(path[:1] == ("metadata",) for path, _ in found):
        found += structure.metadata_errors(stored)
    found += structure.list_errors(kind, kind.document, stored)
    if before is not None:
        found = [(path, error) for path, error in found if not _unchanged(kind, _judged(path, error), stored, before)]
    if not any(error.reason in BLOCKING for _, error in found):
        old_root = rules.ABSENT if before is None else before
        found += rules.rule_errors(kind, kind.document, stored, old_root)
    errors = sorted({error for _, error in found}, key=lambda error: (error.field, error))
    return ValidationResult(stored=stored, errors=errors, dropped=dropped, unchecked=unchecked)


def _plain(document: Mapping[str, Any] | Struct) -> dict[str, Any]:
    plain = msgspec.to_builtins(document)
    if not isinstance(plain, dict):
        raise NoSchemaError(f"a document is an object with apiVersion and kind, not {shown(plain)}")
    return plain


def _schema(document: dict[str, Any]) -> KindSchema:
    api_version, kind = document.get("apiVersion"), document.get("kind")
    found = schemas().get((str(api_version), str(kind)))
    if found is None:
        known = ", ".join(sorted(f"{kind} of {version}" for version, kind in schemas()))
        raise NoSchemaError(f"no schema for kind {kind!r} of apiVersion {api_version!r}; known are {known}")
    return found


def _with_status_apart(stored: dict[str, Any], before: dict[str, Any], subresource: str) -> dict[str, Any]:
    if subresource == "status":
        return {**before, **({"status": stored["status"]} if "status" in stored else {})}
    apart = {name: value for name, value in stored.items() if name != "status"}
    if "status" in before:
        apart["status"] = before["status"]
    return apart


def _judged(path: Path, error: DocumentError) -> Path:
    """The path whose value must be unchanged for the error to be ignored: the whole list for duplicate items."""
    return path[:-1] if error.reason == DUPLICATE else path


def _unchanged(kind: KindSchema, path: Path, new: Any, old: Any) -> bool:
    """Whether the value at a path is unchanged. Errors of unchanged values do not refuse an update."""
    schema = kind.document
    for step in path:
        if isinstance(new, dict) and isinstance(step, str):
            if not isinstance(old, dict) or step not in new or step not in old:
                return isinstance(old, dict) and step not in new and step not in old and new == old
            following = kind.field(schema, step)
            new, old = new[step], old[step]
        elif isinstance(new, list) and isinstance(step, int):
            previous = rules.before(schema, old, step, new[step])
            if previous is rules.ABSENT:
                return False
            following = kind.items(schema)
            new, old = new[step], previous
        else:
            return False
        if following is None:
            return bool(new == old)
        schema = following
    return bool(new == old)
