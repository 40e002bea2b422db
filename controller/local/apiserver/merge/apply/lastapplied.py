# SPDX-License-Identifier: Apache-2.0
"""The way from kubectl's client-side apply to server-side apply.

Client-side apply keeps what it applied in an annotation. The first server-side apply by `kubectl` meets no conflict
over what is still as the annotation says, and keeps the annotation up to date, so that users may go back:
https://kubernetes.io/docs/reference/using-api/server-side-apply/#upgrading-from-client-side-apply-to-server-side-apply
"""

from typing import Any

import msgspec

from trainwright.controller.local.apiserver.merge.apply import naming
from trainwright.controller.local.apiserver.merge.apply.compare import compare
from trainwright.controller.local.apiserver.merge.apply.errors import MissingVersionError
from trainwright.controller.local.apiserver.merge.apply.fieldset import Tree, difference
from trainwright.controller.local.apiserver.merge.apply.validation import UnfitError
from trainwright.controller.local.apiserver.merge.apply.values import json_text
from trainwright.controller.local.apiserver.merge.apply.versions import Document, Versions, text_of
from trainwright.controller.local.apiserver.merge.nesting import is_too_deep

MANAGER = "kubectl"
ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
_LARGEST_ANNOTATIONS = 256 * 1024
"""Bytes of all keys and values together."""


def allowed(live: Document, versions: Versions, version: str) -> Tree | None:
    """Fields that are as the annotation says, over which there is no conflict.

    Args:
        live: the object in the version of the request.
        versions: of its kind.
        version: of the request.

    Returns:
        None where the annotation is absent or of no use.
    """
    annotation = _annotation(live)
    if not annotation:
        return None
    try:
        document: Any = msgspec.json.decode(annotation)
        if type(document) is not dict or is_too_deep(document) or text_of(document, "apiVersion") != version:
            return None
        now, then = versions.typed(live, duplicates=False), versions.typed(document, duplicates=False)
    except (msgspec.DecodeError, RecursionError, UnfitError, MissingVersionError):
        return None
    if now.view is not then.view:
        return None
    change = compare(then.view, then.document, now.document)
    fields = naming.owned(then.view, then.document)
    for changed in (change.modified, change.added, change.removed):
        fields = difference(fields, changed)
    return fields


def follow(made: Document, applied: Document) -> Document:
    """The object with the annotation brought up to what was applied, if it has one.

    An annotation that would make all of them too large is dropped.
    """
    if not _annotation(made):
        return made
    annotations = {**made["metadata"]["annotations"], ANNOTATION: _configuration(applied)}
    size = sum(len(key.encode()) + len((value or "").encode()) for key, value in annotations.items())
    if size > _LARGEST_ANNOTATIONS:
        del annotations[ANNOTATION]
    return {**made, "metadata": {**made["metadata"], "annotations": annotations}}


def _configuration(applied: Document) -> str:
    metadata = dict(applied.get("metadata") or {})
    annotations = metadata.pop("annotations", None)
    if type(annotations) is dict:
        metadata["annotations"] = {key: value for key, value in annotations.items() if key != ANNOTATION}
    return json_text({**applied, "metadata": metadata}) + "\n"


def _annotation(document: Document) -> str:
    metadata = document.get("metadata")
    annotations = metadata.get("annotations") if type(metadata) is dict else None
    annotation = annotations.get(ANNOTATION) if type(annotations) is dict else None
    return annotation if type(annotation) is str else ""
