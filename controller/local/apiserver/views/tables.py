# SPDX-License-Identifier: Apache-2.0
"""Objects as `kubectl get` asks for them: rows and columns, made by the server."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Literal

from trainwright.controller.local.apiserver.merge.apply.values import quoted
from trainwright.controller.local.apiserver.schema.published.kinds import recorded_kinds
from trainwright.controller.local.apiserver.views.cells import (
    cell_of,
    default_cells,
    name_of,
    pod_cells,
    pod_conditions,
)
from trainwright.controller.local.apiserver.views.jsonpath import JSONPathError, Path, compile_path, result_text
from trainwright.controller.local.apiserver.views.reading import UNKNOWN, Document, since

Column = dict[str, Any]


def _no_conditions(_: Document) -> list[dict[str, str]]:
    return []


@dataclass(frozen=True, slots=True)
class TableFormat:
    """How a kind is shown.

    Attributes:
        columns: the column definitions.
        cells: the cells of an object, at a time.
        conditions: the conditions of an object's row.
    """

    columns: tuple[Column, ...]
    cells: Callable[[Document, datetime], list[Any]]
    conditions: Callable[[Document], list[dict[str, str]]] = _no_conditions


def column(name: str, type_: str = "string", *, format_: str = "", priority: int = 0, description: str = "") -> Column:
    """A column definition. Columns of priority 0 are shown, others only by `kubectl get -o wide`.

    Built-in ones have no description, which in Kubernetes is the text of its API documentation; kubectl shows none.
    """
    return {"name": name, "type": type_, "format": format_, "description": description, "priority": priority}


_DEFAULT = TableFormat((column("Name", format_="name"), column("Created At", "date")), default_cells)


@cache
def table_format(api_version: str, kind: str) -> TableFormat:
    """The table of a built-in kind; those without columns of their own show name and time of creation."""
    row = recorded_kinds().get((api_version, kind))
    if row is None:
        return _DEFAULT
    cells = [(one, cell_of(kind, one.name, one.cell)) for one in row.columns]
    columns = tuple(
        column(one.name, one.type, format_=one.format, priority=one.priority)
        for one, read in cells
        if read is not None or kind == "Pod"
    )
    if kind == "Pod":
        return TableFormat(columns, pod_cells, pod_conditions)
    readers = [read for _, read in cells if read is not None]
    return TableFormat(columns, lambda document, now: [read(document, now) for read in readers])


_AGE = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def custom_table_format(printer_columns: Iterable[Document]) -> TableFormat:
    """The table of a version of a custom resource; without columns, the age is one."""
    wanted = list(printer_columns) or [_AGE]
    readers = [(_finder(one["jsonPath"]), one["type"]) for one in wanted]

    def cells(document: Document, now: datetime) -> list[Any]:
        return [name_of(document), *(_cell(find, kind, document, now) for find, kind in readers)]

    return TableFormat((column("Name", format_="name"), *map(_definition, wanted)), cells)


def _definition(wanted: Document) -> Column:
    description = f"Custom resource definition column (in JSONPath format): {wanted['jsonPath']}"
    return column(
        wanted["name"],
        wanted["type"],
        format_=wanted.get("format", ""),
        priority=wanted.get("priority", 0),
        description=wanted.get("description") or description,
    )


def _finder(path: str) -> Path:
    try:
        return compile_path(path)
    except JSONPathError:
        return lambda _: []  # a path that only kubectl knows leaves its cells empty


def _cell(find: Path, kind: str, document: Document, now: datetime) -> Any:
    """The first result, if it is of the column's type; null otherwise."""
    found = find(document)
    if not found:
        return None
    return result_text(found[0]) if kind == "string" else _typed(kind, found[0], now)


def _typed(kind: str, value: Any, now: datetime) -> Any:
    if kind == "boolean":
        return value if type(value) is bool else None
    if kind == "date":
        return _date(value, now) if type(value) is str else None
    if type(value) not in (int, float):
        return None
    return int(value) if kind == "integer" else value


def _date(value: str, now: datetime) -> str:
    if value in ("", "null"):
        return UNKNOWN
    try:
        return since(value, now)
    except ValueError:
        return "<invalid>"


Include = Literal["None", "Metadata", "Object"]

_META = "meta.k8s.io"
_LIST_FIELDS = ("resourceVersion", "continue", "remainingItemCount")


class TableError(ValueError):
    """A table cannot be made as it is asked for: 400, BadRequest; the text is the message of the Status."""

    code = 400
    reason = "BadRequest"


def include_of(text: str) -> Include:
    """The query parameter `includeObject`, which says what of each object goes into its row.

    Raises:
        TableError: it has another value.
    """
    match text:
        case "" | "Metadata":
            return "Metadata"
        case "None" | "Object":
            return text
    said = f"includeObject: Invalid value: {quoted(text)}: must be 'Metadata', 'Object', 'None', or empty"
    raise TableError(f"Unable to convert to Table as requested: {said}")


def table_of_list(
    how: TableFormat,
    items: Iterable[Document],
    metadata: Document,
    *,
    now: datetime,
    include: Include = "Metadata",
    version: str = "v1",
) -> dict[str, Any]:
    """The Table of a list.

    Args:
        how: the format of the kind.
        items: the objects. For `include="Object"` they need kind and apiVersion.
        metadata: of the list.
        now: what ages are counted to.
        include: what of each object goes into its row.
        version: of the Table, `v1` or `v1beta1`.
    """
    rows = [_row(how, item, now, include, version) for item in items]
    kept = {key: metadata[key] for key in _LIST_FIELDS if metadata.get(key)}
    return _table(how, rows, kept, version, headers=True)


def table_of_object(
    how: TableFormat,
    document: Document,
    *,
    now: datetime,
    include: Include = "Metadata",
    version: str = "v1",
    headers: bool = True,
) -> dict[str, Any]:
    """The Table of one object; the events of a watch have no headers after the first. See `table_of_list`."""
    found = (document.get("metadata") or {}).get("resourceVersion")
    metadata = {"resourceVersion": found} if found else {}
    return _table(how, [_row(how, document, now, include, version)], metadata, version, headers=headers)


def _table(
    how: TableFormat, rows: list[dict[str, Any]], metadata: dict[str, Any], version: str, *, headers: bool
) -> dict[str, Any]:
    return {
        "kind": "Table",
        "apiVersion": f"{_META}/{version}",
        "metadata": metadata,
        "columnDefinitions": list(how.columns) if headers else None,
        "rows": rows,
    }


def _row(how: TableFormat, document: Document, now: datetime, include: Include, version: str) -> dict[str, Any]:
    row: dict[str, Any] = {"cells": how.cells(document, now)}
    if conditions := how.conditions(document):
        row["conditions"] = conditions
    if include == "Metadata":
        row["object"] = partial_metadata(document, version)
    else:
        row["object"] = document if include == "Object" else None
    return row


def partial_metadata(document: Document, version: str = "v1") -> dict[str, Any]:
    """The PartialObjectMetadata of an object."""
    kind = {"kind": "PartialObjectMetadata", "apiVersion": f"{_META}/{version}"}
    return {**kind, "metadata": document.get("metadata") or {}}


def partial_metadata_list(items: Iterable[Document], metadata: Document, version: str = "v1") -> dict[str, Any]:
    """The PartialObjectMetadataList of a list."""
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": f"{_META}/{version}",
        "metadata": {key: metadata[key] for key in _LIST_FIELDS if metadata.get(key)},
        # Null for an empty list, as the real server writes it.
        "items": [partial_metadata(item, version) for item in items] or None,
    }
