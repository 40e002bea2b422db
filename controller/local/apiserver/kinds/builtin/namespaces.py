# SPDX-License-Identifier: Apache-2.0
"""Namespaces."""

from typing import ClassVar

from trainwright.api.objects import Document
from trainwright.api.validation import DocumentError, names
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.kinds.builtin.formats import (
    Errors,
    finalizer_errors,
    old_finalizer_errors,
    qualified_errors,
)
from trainwright.controller.local.apiserver.kinds.builtin.parts import ensure, part, texts
from trainwright.controller.local.apiserver.kinds.builtin.strategy import BuiltInStrategy
from trainwright.controller.local.apiserver.kinds.strategy import ResetFields, set_or_drop
from trainwright.controller.local.apiserver.schema.errors import invalid

FINALIZER = "kubernetes"
NAME_LABEL = "kubernetes.io/metadata.name"
IMMORTAL = ("default", "kube-system", "kube-public")
"""Namespaces that cannot be deleted."""


class NamespaceStrategy(BuiltInStrategy):
    """Namespaces: held by a finalizer in `spec` until their content is gone."""

    struct = "core/v1.Namespace"
    returns_deleted = True

    reset_fields: ClassVar[ResetFields] = {"": (("status",),), "status": (("spec",),), "finalize": (("status",),)}
    name_rule = staticmethod(names.dns_label)

    def fill_in(self, document: Document) -> None:
        if not document["status"].get("phase"):
            document["status"]["phase"] = "Active"
        _label(document)

    def prepare_create(self, document: Document) -> None:
        document["status"] = {"phase": "Active"}
        finalizers = list(texts(document["spec"], "finalizers"))
        if FINALIZER not in finalizers:
            document["spec"]["finalizers"] = [*finalizers, FINALIZER]
        # Once more: a generated name was not there for the defaults.
        _label(document)

    def prepare_update(self, new: Document, old: Document, subresource: str) -> None:
        if subresource == "status":
            set_or_drop(new, "spec", old.get("spec"))
        else:
            set_or_drop(new, "status", old.get("status"))
            if subresource != "finalize":
                set_or_drop(new["spec"], "finalizers", part(old, "spec").get("finalizers"))

    def validate(self, document: Document) -> list[DocumentError]:
        found = finalizer_errors(document)
        for name in texts(document["spec"], "finalizers"):
            found += _finalizer_errors(name, "spec.finalizers")
        return found

    def validate_update(self, new: Document, old: Document, subresource: str) -> list[DocumentError]:  # noqa: ARG002
        found = finalizer_errors(new)
        if subresource == "status":
            return found + _phase_errors(new)
        if subresource == "finalize":
            for index, name in enumerate(texts(part(new, "spec"), "finalizers")):
                found += _finalizer_errors(name, f"spec.finalizers[{index}]")
            return found
        return self.validate(new) + found

    def selectable(self, document: Document) -> dict[str, str]:
        return {**super().selectable(document), "status.phase": part(document, "status").get("phase") or ""}

    def before_delete(self, document: Document) -> None:
        name = document["metadata"]["name"]
        if name in IMMORTAL:
            raise errors.forbidden("", "namespaces", name, "this namespace may not be deleted")

    marks_time_only = True

    def begin_deletion(self, document: Document) -> None:
        document.setdefault("status", {})["phase"] = "Terminating"

    def is_held(self, document: Document) -> bool:
        return bool(part(document, "spec").get("finalizers"))


def _finalizer_errors(name: str, field: str) -> Errors:
    return qualified_errors(name, field) + old_finalizer_errors(name, field)


def _phase_errors(namespace: Document) -> Errors:
    phase = part(namespace, "status").get("phase") or ""
    ends = bool(namespace["metadata"].get("deletionTimestamp"))
    if phase == ("Terminating" if ends else "Active"):
        return []
    text = "may only be 'Terminating' if `deletionTimestamp` is not empty"
    if not ends:
        text = "may only be 'Active' if `deletionTimestamp` is empty"
    return [invalid("status.Phase", phase, text)]


def _label(document: Document) -> None:
    metadata = document.setdefault("metadata", {})
    if metadata.get("name"):
        ensure(metadata, "labels", {})
        metadata["labels"][NAME_LABEL] = metadata["name"]
