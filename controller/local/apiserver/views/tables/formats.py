# SPDX-License-Identifier: Apache-2.0
"""How each kind is shown as a table: the recorded columns, whose cells are read as recorded or by code."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from trainwright.controller.local.apiserver.schema.published.kinds import RecordedKind, recorded_kinds
from trainwright.controller.local.apiserver.views.tables.cells import CELLS, default_cells
from trainwright.controller.local.apiserver.views.tables.pods import pod_cells, pod_conditions
from trainwright.controller.local.apiserver.views.tables.reading import Document
from trainwright.controller.local.apiserver.views.tables.recorded import compile_cell

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
    columns = tuple(column(one.name, one.type, format_=one.format, priority=one.priority) for one in row.columns)
    if kind == "Pod":
        return TableFormat(columns, pod_cells, pod_conditions)
    return TableFormat(columns, _reader(row))


def _reader(row: RecordedKind) -> Callable[[Document, datetime], list[Any]]:
    own = CELLS.get((row.api_version, row.kind), {})
    readers = [own.get(one.name) or compile_cell(one.cell) for one in row.columns]
    return lambda document, now: [read(document, now) for read in readers]
