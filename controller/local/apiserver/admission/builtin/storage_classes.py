# SPDX-License-Identifier: Apache-2.0
"""DefaultStorageClass: a claim without a class gets the default one."""

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.admission.builtin.write import Context, Write
from trainwright.controller.local.apiserver.kinds.parts import part

_DEFAULT = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


def mutate(document: Document, write: Write, context: Context) -> None:
    """Set `storageClassName`. Of several defaults the newest is taken."""
    if not write.creates("", "persistentvolumeclaims"):
        return
    spec: Document = document.setdefault("spec", {})
    if _BETA_CLASS in part(part(document, "metadata"), "annotations") or spec.get("storageClassName") is not None:
        return
    classes = [one for one in context.listed("storage.k8s.io", "storageclasses", "") if _is_default(one)]
    by_name = sorted(classes, key=lambda one: str(one["metadata"]["name"]))
    newest = sorted(by_name, key=lambda one: str(one["metadata"].get("creationTimestamp") or ""), reverse=True)
    if newest:
        spec["storageClassName"] = newest[0]["metadata"]["name"]


def _is_default(document: Document) -> bool:
    annotations = part(part(document, "metadata"), "annotations")
    return any(annotations.get(key) == "true" for key in _DEFAULT)
