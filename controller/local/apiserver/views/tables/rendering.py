# SPDX-License-Identifier: Apache-2.0
"""Tables and PartialObjectMetadata, the two forms other than its own in which an object can be asked for.

https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal

from trainwright.controller.local.apiserver.merge.apply.values import quoted
from trainwright.controller.local.apiserver.views.tables.formats import TableFormat
from trainwright.controller.local.apiserver.views.tables.reading import Document

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
