# SPDX-License-Identifier: Apache-2.0
"""Who owns which fields: the entries of `metadata.managedFields`, read and written, and conflicts over them."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from trainwright.api import times
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.merge import fieldset
from trainwright.controller.local.apiserver.merge.fieldset import EntryError, Tree
from trainwright.controller.local.values import equal, json_text, quoted

APPLY = "Apply"
UPDATE = "Update"
_FIELDS_TYPE = "FieldsV1"


class ManagerIdentity(NamedTuple):
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


class Ownership(NamedTuple):
    fields: Tree
    version: str
    """The apiVersion that the fields are named in."""
    time: str | None = None
    """RFC 3339, when it last changed what it owns. A manager whose first apply changed nothing has none."""
    as_read: tuple[Tree, dict[str, Any]] | None = None
    """Fields and their form on the wire, of which what stays is not written again."""


Owners = dict[ManagerIdentity, Ownership]


def metadata_of(document: dict[str, Any]) -> dict[str, Any]:
    """The metadata of a document; empty if what stands there is no object."""
    metadata = document.get("metadata")
    return metadata if type(metadata) is dict else {}


def entries_of(document: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The entries of an object; None if it has none."""
    return metadata_of(document).get("managedFields")


def is_reset(entries: list[dict[str, Any]] | None) -> bool:
    """Whether the entries of an update ask to forget all owners: an empty list, or one empty entry."""
    return entries is not None and len(entries) < 2 and not any(any(entry.values()) for entry in entries)


def read_entries(entries: Iterable[dict[str, Any]] | None) -> Owners:
    """The owners that entries tell of. Raises EntryError, with the text of Kubernetes."""
    owners: Owners = {}
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
        manager = ManagerIdentity(
            entry.get("manager") or "",
            operation,
            "" if operation == APPLY else version,
            entry.get("subresource") or "",
        )
        wire, moment = entry.get("fieldsV1"), entry.get("time")
        fields, in_form = fieldset.read_and_compare(wire)
        if moment and not moment.endswith("Z"):
            moment = times.format_time(times.parse(moment))
        owners[manager] = Ownership(fields, version, moment, (fields, wire) if wire and in_form else None)
    return owners


def write_entries(owners: Owners) -> list[dict[str, Any]]:
    """The entries, in the order in which Kubernetes writes them: by operation, time in seconds and name."""

    def order(one: tuple[ManagerIdentity, Ownership]) -> tuple[str, str, str, str, str]:
        manager, owned = one
        return manager.operation, owned.time or "", manager.name, owned.version, manager.subresource

    return [_write(manager, owned) for manager, owned in sorted(owners.items(), key=order)]


def _write(manager: ManagerIdentity, owned: Ownership) -> dict[str, Any]:
    entry: dict[str, Any] = {"manager": manager.name} if manager.name else {}
    entry |= {"operation": manager.operation, "apiVersion": owned.version}
    if owned.time is not None:
        entry["time"] = owned.time
    entry |= {"fieldsType": _FIELDS_TYPE, "fieldsV1": fieldset.write(owned.fields, *(owned.as_read or ()))}
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
    times_alone = all(
        equal({**left, "time": ""}, {**right, "time": ""}) for left, right in zip(before, after, strict=True)
    )
    restored = {**new, "metadata": {**new["metadata"], "managedFields": before}}
    return restored if times_alone and equal(old, restored) else new
