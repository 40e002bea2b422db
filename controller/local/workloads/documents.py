# SPDX-License-Identifier: Apache-2.0
"""Reads parts of documents, and makes the patch that turns one part into another. Nothing here changes a document."""

from collections.abc import Mapping
from typing import Any

from trainwright.api.nodes import is_met
from trainwright.api.objects import Document


def spec_of(document: Document) -> Document:
    """`spec`, empty if it is not set."""
    return document.get("spec") or {}


def status_of(document: Document) -> Document:
    """`status`, empty if it is not set."""
    return document.get("status") or {}


def conditions_of(document: Document) -> list[Document]:
    """`status.conditions`, empty if there are none."""
    return status_of(document).get("conditions") or []


def created_of(document: Document) -> str:
    """`metadata.creationTimestamp` in wire form, empty for an object that was never stored."""
    return str((document.get("metadata") or {}).get("creationTimestamp") or "")


def labels_match(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a label selector in wire form matches; an empty one matches everything."""
    if any(labels.get(name) != value for name, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(is_met(expression, labels) for expression in selector.get("matchExpressions") or ())


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> Document:
    """The JSON merge patch (RFC 7386) that turns `before` into `after`; empty if they are equal.

    Lists are replaced as a whole, and a field that `after` lacks becomes null.
    """
    patch: Document = {name: None for name in before if name not in after}
    for name, value in after.items():
        current = before.get(name)
        if name in before and current == value:
            continue
        if isinstance(value, Mapping) and isinstance(current, Mapping):
            patch[name] = merge_patch(current, value)
        else:
            patch[name] = value
    return patch
