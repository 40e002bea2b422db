# SPDX-License-Identifier: Apache-2.0
"""Namespaces."""

from trainwright.api.objects import Document
from trainwright.api.validation import DocumentError
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

    reset_fields: ResetFields = {"finalize": (("status",),)}  # noqa: RUF012 - never changed
    marks_time_only = True

    def fill_in(self, document: Document) -> None:
        if not document["status"].get("phase"):
            document["status"]["phase"] = "Active"
        _label(document)

    def prepare_for_create(self, document: Document) -> None:
        super().prepare_for_create(document)
        document["status"] = {"phase": "Active"}
        finalizers = list(texts(document["spec"], "finalizers"))
        if FINALIZER not in finalizers:
            document["spec"]["finalizers"] = [*finalizers, FINALIZER]
        # Once more: a generated name was not there for the defaults.
        _label(document)

    def prepare_for_update(self, new: Document, old: Document, subresource: str) -> None:
        super().prepare_for_update(new, old, subresource)
        if not subresource:
            set_or_drop(new["spec"], "finalizers", part(old, "spec").get("finalizers"))

    def faults(self, document: Document) -> Errors:
        return _kept_errors(document)

    def validate_update(self, new: Document, old: Document, subresource: str) -> list[DocumentError]:
        if subresource == "finalize":
            return finalizer_errors(new) + _kept_errors(new, indexed=True)
        return super().validate_update(new, old, subresource) + (_phase_errors(new) if subresource == "status" else [])

    def before_delete(self, document: Document) -> None:
        name = document["metadata"]["name"]
        if name in IMMORTAL:
            raise errors.forbidden("", "namespaces", name, "this namespace may not be deleted")

    def begin_deletion(self, document: Document) -> None:
        document.setdefault("status", {})["phase"] = "Terminating"

    def is_held(self, document: Document) -> bool:
        return bool(part(document, "spec").get("finalizers"))


def _kept_errors(namespace: Document, *, indexed: bool = False) -> Errors:
    """Errors of `spec.finalizers`. Only the endpoint for them says which one is wrong."""
    found: Errors = []
    for index, name in enumerate(texts(part(namespace, "spec"), "finalizers")):
        field = f"spec.finalizers[{index}]" if indexed else "spec.finalizers"
        found += qualified_errors(name, field) + old_finalizer_errors(name, field)
    return found


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
