# SPDX-License-Identifier: Apache-2.0
"""Namespaces."""

from typing import ClassVar

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver import errors, names
from trainwright.controller.local.apiserver.strategies.parts import ensure, part, texts
from trainwright.controller.local.apiserver.strategies.strategy import ResetFields, Strategy, set_or_drop

FINALIZER = "kubernetes"
NAME_LABEL = "kubernetes.io/metadata.name"
IMMORTAL = ("default", "kube-system", "kube-public")
"""Namespaces that cannot be deleted."""


class NamespaceStrategy(Strategy):
    """Namespaces: held by a finalizer in `spec` until their content is gone."""

    reset_fields: ClassVar[ResetFields] = {"": (("status",),), "status": (("spec",),), "finalize": (("status",),)}
    name_rule = staticmethod(names.label)

    def default(self, document: Document) -> None:
        ensure(document, "spec", {})
        ensure(document, "status", {})
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

    def selectable(self, document: Document) -> dict[str, str]:
        return {**super().selectable(document), "status.phase": part(document, "status").get("phase") or ""}

    def before_delete(self, document: Document) -> None:
        name = document["metadata"]["name"]
        if name in IMMORTAL:
            raise errors.forbidden("", "namespaces", name, "this namespace may not be deleted")

    def begin_deletion(self, document: Document) -> None:
        document.setdefault("status", {})["phase"] = "Terminating"

    def is_held(self, document: Document) -> bool:
        return bool(part(document, "spec").get("finalizers"))


def _label(document: Document) -> None:
    metadata = document.setdefault("metadata", {})
    if metadata.get("name"):
        ensure(metadata, "labels", {})
        metadata["labels"][NAME_LABEL] = metadata["name"]
