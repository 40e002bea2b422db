# SPDX-License-Identifier: Apache-2.0
"""Objects in the versions that their owners name fields in."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from trainwright.controller.local.apiserver.merge.apply.errors import (
    ConversionError,
    InternalError,
    MissingVersionError,
)
from trainwright.controller.local.apiserver.merge.apply.openapi import Types
from trainwright.controller.local.apiserver.merge.apply.schema import SchemaView
from trainwright.controller.local.apiserver.merge.apply.validation import UnfitError, check, unlike

Document = dict[str, Any]
Convert = Callable[[Document, str], Document]
"""An object in another apiVersion; the object given is not changed.

Raises:
    MissingVersionError: the version is not known; what is owned in it is forgotten.
    ConversionError: it cannot be converted.
"""


class Typed(NamedTuple):
    """A document that fits its view."""

    document: Document
    view: SchemaView


def same_schema(*served: str) -> Convert:
    """The conversion of kinds whose versions differ in nothing but the name, such as CRDs with strategy None.

    As with the API server, an owner in a version that is not served any more makes every apply fail; its entry has to
    be taken out of managedFields.
    """

    def convert(document: Document, version: str) -> Document:
        if version not in served:
            raise ConversionError(f"request to convert CR to an invalid group/version: {version}")
        if (own := document.get("apiVersion")) not in served:
            raise ConversionError(f"request to convert CR from an invalid group/version: {own}")
        return {**document, "apiVersion": version}

    return convert


@dataclass(frozen=True, slots=True)
class Versions:
    """How objects of one kind are converted and typed."""

    types: Types
    convert: Convert

    def typed(self, document: Document, *, duplicates: bool, fitting: Typed | None = None) -> Typed:
        """A document with its view.

        Args:
            document: to be checked.
            duplicates: lists may hold several items of the same keys.
            fitting: a document that was checked no less strictly; what is equal in both is not looked through again.

        Raises:
            MissingVersionError: there is no schema of its apiVersion and kind.
            UnfitError: it does not fit.
        """
        version, kind = text_of(document, "apiVersion"), text_of(document, "kind")
        view = self.types.of_kind(version, kind)
        if view is None:
            raise MissingVersionError(f"no corresponding type for {kind_text(version, kind)}")
        known = fitting.document if fitting is not None and fitting.view is view else {}
        check(view, unlike(document, known), duplicates=duplicates)
        return Typed(document, view)

    def at(self, version: str, one: Typed) -> Typed:
        """A typed document in another version.

        Raises:
            MissingVersionError: the version is not known.
            InternalError: it cannot be converted, or does not fit there.
        """
        if type(one.document) is not dict:
            raise InternalError("failed to convert value to unstructured for type <nil>")
        if one.document.get("apiVersion") == version:
            return one
        try:
            return self.typed(self.convert(one.document, version), duplicates=False)
        except (ConversionError, UnfitError) as error:
            raise InternalError(str(error)) from error


def text_of(document: Document, key: str) -> str:
    """A field that ought to be a string; empty if it is none."""
    value = document.get(key)
    return value if type(value) is str else ""


def kind_text(version: str, kind: str) -> str:
    """A kind as Kubernetes prints it, such as `batch/v1, Kind=Job`."""
    if version.count("/") > 1:
        return "/, Kind="
    group, _, number = version.rpartition("/")
    return f"{group}/{number}, Kind={kind}"
