# SPDX-License-Identifier: Apache-2.0
"""Who owns which fields: the entries of `metadata.managedFields`, read and written, and conflicts over them."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from trainwright.api import times
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.merge import fieldset
from trainwright.controller.local.apiserver.merge.fieldset import EntryError, Tree
from trainwright.controller.local.values import equal, json_text, quoted

APPLY = "Apply"
UPDATE = "Update"
_FIELDS_TYPE = "FieldsV1"
_TEXTS = ("manager", "operation", "apiVersion", "fieldsType", "subresource")


class ManagerIdentity(NamedTuple):
    """What tells managers apart."""

    name: str
    operation: str
    version: str = ""
    """Of the API; empty for applies, since what one applies in a new version takes the place of the old."""
    subresource: str = ""

    @property
    def identifier(self) -> str:
        """The text that Kubernetes sorts managers by."""
        parts = {"manager": self.name, "operation": self.operation, "apiVersion": self.version}
        parts["subresource"] = self.subresource
        return "{" + ",".join(f'"{key}":{json_text(value)}' for key, value in parts.items() if value) + "}"

    def __str__(self) -> str:
        text = quoted(self.name)
        if self.subresource:
            text += f" with subresource {quoted(self.subresource)}"
        return f"{text} using {self.version}" if self.operation == UPDATE else text


@dataclass(frozen=True, slots=True)
class Ownership:
    """What one manager owns."""

    fields: Tree
    version: str
    """The apiVersion that the fields are named in."""
    applied: bool

    def with_fields(self, fields: Tree) -> "Ownership":
        """The same of other fields."""
        return replace(self, fields=fields)


Owners = dict[ManagerIdentity, Ownership]


@dataclass(slots=True)
class Managed:
    """All owners of an object and when each last changed what it owns."""

    owners: Owners = field(default_factory=dict)
    times: dict[ManagerIdentity, str] = field(default_factory=dict)
    """RFC 3339. A manager has none whose first apply changed nothing."""
    as_read: dict[ManagerIdentity, tuple[Tree, dict[str, Any]]] = field(default_factory=dict)
    """Fields and their form on the wire, of which what stays is not written again."""


def metadata_of(document: dict[str, Any]) -> dict[str, Any]:
    """The metadata of a document; empty if what stands there is no object."""
    metadata = document.get("metadata")
    return metadata if type(metadata) is dict else {}


def entries_of(document: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The entries of an object; None if it has none, or what stands there is no list of entries."""
    entries = metadata_of(document).get("managedFields")
    if type(entries) is not list or not all(map(_is_entry, entries)):
        return None
    return entries


def _is_entry(entry: Any) -> bool:
    if type(entry) is not dict or any(type(entry.get(key, "")) not in (str, type(None)) for key in _TEXTS):
        return False
    moment = entry.get("time")
    if moment is not None:
        try:
            times.parse(moment)
        except (ValueError, TypeError):
            return False
    return True


def is_reset(entries: list[dict[str, Any]] | None) -> bool:
    """Whether the entries of an update ask to forget all owners: an empty list, or one empty entry."""
    if entries is None or len(entries) > 1:
        return False
    return not any(entry.get(key) for entry in entries for key in (*_TEXTS, "time")) and not any(
        entry.get("fieldsV1") is not None for entry in entries
    )


def read_entries(entries: Iterable[dict[str, Any]] | None) -> Managed:
    """The owners that entries tell of. Raises EntryError, with the text of Kubernetes."""
    managed = Managed()
    for index, entry in enumerate(entries or ()):
        operation, version = entry.get("operation") or "", entry.get("apiVersion") or ""
        if operation not in (APPLY, UPDATE):
            raise EntryError("operation must be `Apply` or `Update`")
        if not version:
            raise EntryError("apiVersion must not be empty")
        fields_type = entry.get("fieldsType") or ""
        if not fields_type:
            raise EntryError(f"missing fieldsType in managed fields entry {index}")
        if fields_type != _FIELDS_TYPE:
            raise EntryError(f"invalid fieldsType {quoted(fields_type)} in managed fields entry {index}")
        applied = operation == APPLY
        manager = ManagerIdentity(
            entry.get("manager") or "", operation, "" if applied else version, entry.get("subresource") or ""
        )
        wire: Any = entry.get("fieldsV1")
        fields, in_form = fieldset.read_and_compare(wire)
        managed.owners[manager] = Ownership(fields, version, applied)
        if in_form:
            managed.as_read[manager] = fields, wire
        managed.times.pop(manager, None)
        if moment := entry.get("time"):
            managed.times[manager] = moment if moment.endswith("Z") else times.format_time(times.parse(moment))
    return managed


def write_entries(managed: Managed) -> list[dict[str, Any]]:
    """The entries, in the order in which Kubernetes writes them: by operation, time in seconds and name."""
    return [_write(manager, managed) for manager in sorted(managed.owners, key=lambda one: _order(one, managed))]


def _order(manager: ManagerIdentity, managed: Managed) -> tuple[str, int, str, str, str]:
    owned = managed.owners[manager]
    seconds = seconds_of(managed.times.get(manager))
    return (manager.operation, seconds, manager.name, owned.version, manager.subresource)


def seconds_of(moment: str | None) -> int:
    """Whole seconds since 1970 of a time of the wire; 0 without one."""
    return 0 if moment is None else int(times.parse(moment).timestamp())


def _write(manager: ManagerIdentity, managed: Managed) -> dict[str, Any]:
    owned = managed.owners[manager]
    entry: dict[str, Any] = {}
    if manager.name:
        entry["manager"] = manager.name
    entry["operation"] = manager.operation
    entry["apiVersion"] = owned.version
    if (moment := managed.times.get(manager)) is not None:
        entry["time"] = moment
    entry["fieldsType"] = _FIELDS_TYPE
    entry["fieldsV1"] = fieldset.write(owned.fields, *managed.as_read.get(manager, ()))
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry


class Conflicts(Exception):  # noqa: N818 - it carries what may yet be allowed
    """The fields of each manager that an apply would change, which is not forced."""

    def __init__(self, found: dict[ManagerIdentity, Tree]) -> None:
        super().__init__(f"{len(found)} managers own what would change")
        self.found = found

    def error(self, excused: Tree) -> errors.StatusError | None:
        """The error for the client, without fields that are excused; None if no conflict is left."""
        causes: list[tuple[str, str]] = []
        lines: list[str] = []
        for manager in sorted(self.found, key=lambda manager: manager.identifier):
            paths = [path for path in fieldset.paths(self.found[manager]) if not fieldset.has(excused, path)]
            fields = list(map(fieldset.text, paths))
            causes += [(field, f"conflict with {manager}") for field in fields]
            lines += [f"conflicts with {manager}:", *(f"- {field}" for field in fields)] if fields else ()
        if not causes:
            return None
        told = f"1 conflict: {causes[0][1]}: {causes[0][0]}"
        if len(causes) > 1:
            told = f"{len(causes)} conflicts: " + "\n".join(lines)
        return errors.apply_conflict(f"Apply failed with {told}", causes)


def without_new_times(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The new object, complete, with the old times if nothing else changed; then there is nothing to write.

    Such objects come from an apply that only differs by what defaults set again.
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
