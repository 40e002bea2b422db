# SPDX-License-Identifier: Apache-2.0
"""Custom resources, by the schema of their version."""

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from trainwright.api.names import qualified
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.metadata import set_or_drop
from trainwright.controller.local.apiserver.kinds.strategy import Strategy
from trainwright.controller.local.apiserver.schema.crd import Schema, unknown_field
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
        return [text for name in added for text in _finalizer_warnings(name)]

    def errors(
        self, known: list[DocumentError], new: Document, old: Document | None, subresource: str
    ) -> list[DocumentError]:
        if self._schema is None:
            return known
        return self._schema.validate(new, old, status=subresource == "status", known=known)


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
