# SPDX-License-Identifier: Apache-2.0
"""Objects as `kubectl get` asks for them: rows and columns, made by the server."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.kinds.registry import Resource
from trainwright.controller.local.apiserver.schema.published.kinds import Column
from trainwright.controller.local.apiserver.views.cells import (
    UNKNOWN,
    Document,
    cell_of,
    default_cells,
    name_of,
    pod_cells,
    pod_conditions,
    since,
)
from trainwright.controller.local.apiserver.views.jsonpath import JSONPathError, Path, compile_path, result_text
from trainwright.controller.local.apiserver.views.negotiation import META


@dataclass(frozen=True, slots=True)
class TableFormat:
    """How a kind is shown: its columns, the cells of an object at a time, and the conditions of its row."""

    columns: tuple[dict[str, Any], ...]
    cells: Callable[[Document, datetime], list[Any]]
    conditions: Callable[[Document], list[dict[str, str]]] = lambda _: []


def _definition(column: Column) -> dict[str, Any]:
    return {name: getattr(column, name) for name in ("name", "type", "format", "description", "priority")}


_NAME = Column("Name", format="name")
_DEFAULT = TableFormat((_definition(_NAME), _definition(Column("Created At", "date"))), default_cells)
_AGE = Column("Age", "date", cell=".metadata.creationTimestamp")


@lru_cache(maxsize=512)
def table_format(resource: Resource) -> TableFormat:
    """The table of a kind; built-in ones without columns show name and time of creation, custom ones name and age."""
    if resource.custom:
        return _custom(resource.columns or (_AGE,))
    if not resource.columns:
        return _DEFAULT
    if resource.kind == "Pod":
        return TableFormat(tuple(map(_definition, resource.columns)), pod_cells, pod_conditions)
    cells = [(column, cell_of(resource.kind, column.name, column.cell)) for column in resource.columns]
    readers = [read for _, read in cells if read is not None]
    return TableFormat(
        tuple(_definition(column) for column, read in cells if read is not None),
        lambda document, now: [read(document, now) for read in readers],
    )


def _custom(columns: Iterable[Column]) -> TableFormat:
    """https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#additional-printer-columns"""
    readers = [(_finder(column.cell), column.type) for column in columns]

    def cells(document: Document, now: datetime) -> list[Any]:
        return [name_of(document), *(_cell(find, kind, document, now) for find, kind in readers)]

    return TableFormat((_definition(_NAME), *map(_definition, columns)), cells)


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
    value = found[0]
    match kind, value:
        case "string", _:
            return result_text(value)
        case ("boolean", bool()):
            return value
        case "date", str():
            return _date(value, now)
        case (("integer" | "number"), (int() | float())) if not isinstance(value, bool):
            return int(value) if kind == "integer" else value
    return None


def _date(value: str, now: datetime) -> str:
    if value in ("", "null"):
        return UNKNOWN
    try:
        return since(value, now)
    except ValueError:
        return "<invalid>"


_LIST_FIELDS = ("resourceVersion", "continue", "remainingItemCount")
_INCLUDED = ("", "None", "Metadata", "Object")


def check_include(include: str) -> None:
    """Raises StatusError for a wrong `includeObject`, which says what of each object goes into its row."""
    if include not in _INCLUDED:
        raise errors.bad_request(f"includeObject={include!r}: use Metadata, Object or None")


def table_of(
    how: TableFormat,
    items: Iterable[Document],
    metadata: Document,
    *,
    now: datetime,
    include: str = "",
    headers: bool = True,
) -> dict[str, Any]:
    """The Table of a list or of one object, with its metadata; `headers`: it defines the columns.

    For `include` of `Object`, items need kind and apiVersion. Raises StatusError where it says something else.
    """
    check_include(include)
    return {
        "kind": "Table",
        "apiVersion": f"{META}/v1",
        "metadata": _of_list(metadata),
        "columnDefinitions": list(how.columns) if headers else None,
        "rows": [_row(how, item, now, include) for item in items],
    }


def _of_list(metadata: Document) -> Document:
    return {key: metadata[key] for key in _LIST_FIELDS if metadata.get(key)}


def _row(how: TableFormat, document: Document, now: datetime, include: str) -> dict[str, Any]:
    row: dict[str, Any] = {"cells": how.cells(document, now)}
    if conditions := how.conditions(document):
        row["conditions"] = conditions
    row["object"] = None if include == "None" else document if include == "Object" else partial_metadata(document)
    return row


def partial_metadata(document: Document) -> dict[str, Any]:
    metadata = document.get("metadata") or {}
    return {"kind": "PartialObjectMetadata", "apiVersion": f"{META}/v1", "metadata": metadata}


def partial_metadata_list(items: Iterable[Document], metadata: Document) -> dict[str, Any]:
    # Null for an empty list, as the real server writes it.
    shown, kind = list(map(partial_metadata, items)) or None, "PartialObjectMetadataList"
    return {"kind": kind, "apiVersion": f"{META}/v1", "metadata": _of_list(metadata), "items": shown}
