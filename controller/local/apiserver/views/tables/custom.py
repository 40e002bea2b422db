# SPDX-License-Identifier: Apache-2.0
"""The rows of custom resources, by the `additionalPrinterColumns` of their definitions.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#additional-printer-columns
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from trainwright.controller.local.apiserver.views.jsonpath import JSONPathError, Path, compile_path, result_text
from trainwright.controller.local.apiserver.views.tables.ages import UNKNOWN, since
from trainwright.controller.local.apiserver.views.tables.cells import name_of
from trainwright.controller.local.apiserver.views.tables.formats import Column, TableFormat, column
from trainwright.controller.local.apiserver.views.tables.reading import Document

_AGE = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def custom_table_format(printer_columns: Iterable[Document]) -> TableFormat:
    """The table of a version of a custom resource; without columns, the age is one.

    Raises:
        JSONPathError: the path of a column cannot be parsed.
    """
    wanted = list(printer_columns) or [_AGE]
    readers = [(compile_path(one["jsonPath"]), one["type"]) for one in wanted]

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


def _cell(find: Path, kind: str, document: Document, now: datetime) -> Any:
    """The first result, if it is of the column's type; null otherwise."""
    try:
        found = find(document)
    except JSONPathError:
        # A path that does not fit an object leaves its cell empty.
        return None
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
