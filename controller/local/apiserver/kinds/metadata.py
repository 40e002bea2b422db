# SPDX-License-Identifier: Apache-2.0
"""Reading and writing parts of documents, and what the server itself writes into `metadata`."""

from datetime import datetime
from typing import Any

from trainwright.api import times
from trainwright.api.objects import Document, generated_name
from trainwright.api.surroundings import new_uid
from trainwright.controller.local.apiserver import errors

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
IMMUTABLE = "field is immutable"
_SYSTEM_FIELDS = ("creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")


def metadata_of(document: Document) -> Document:
    """The metadata of a document; added if there is none."""
    metadata = document.get("metadata")
    if metadata is None:
        metadata = document["metadata"] = {}
    found: Document = metadata
    return found


def wipe(metadata: Document) -> None:
    """Take out what only the server says of a new object."""
    for field in _SYSTEM_FIELDS:
        metadata.pop(field, None)


def begin(metadata: Document, now: datetime) -> None:
    """Give a new object its identity."""
    metadata["uid"] = new_uid()
    metadata["creationTimestamp"] = times.format_time(now)
    if metadata.get("generateName") and not metadata.get("name"):
        metadata["name"] = generated_name(metadata["generateName"])


def set_namespace(metadata: Document, namespace: str) -> None:
    """Make the namespace that of the request. Raises StatusError where the object says another."""
    given = metadata.get("namespace") or ""
    if given == namespace:
        return
    if given and namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if namespace:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)


def check_name(metadata: Document, name: str) -> None:
    """Make sure that an update is for the object of the URL. Raises StatusError."""
    given = metadata.get("name")
    if not given:
        raise errors.bad_request(
            f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    if given != name:
        raise errors.bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")


def without_duplicate_owners(metadata: Document) -> list[str]:
    """Keep each owner reference once. Returns the uids that were there more often."""
    references = metadata.get("ownerReferences")
    if not references or len(references) < 2:
        return []
    kept: list[Any] = []
    doubled: list[str] = []
    for reference in references:
        if reference in kept:
            doubled.append(str(reference.get("uid")))
        else:
            kept.append(reference)
    if doubled:
        metadata["ownerReferences"] = kept
    return doubled


def keep_system_fields(metadata: Document, old: Document) -> None:
    """Keep what an update cannot change."""
    metadata.pop("selfLink", None)
    if not metadata.get("uid"):
        metadata["uid"] = old.get("uid")
    if old.get("creationTimestamp"):
        metadata["creationTimestamp"] = old["creationTimestamp"]
    if old.get("deletionTimestamp"):
        metadata["deletionTimestamp"] = old["deletionTimestamp"]
    grace = old.get("deletionGracePeriodSeconds")
    if grace is not None and metadata.get("deletionGracePeriodSeconds") is None:
        metadata["deletionGracePeriodSeconds"] = grace


# -------------------------------------------------------------- parts of documents


def part(document: Document, field: str) -> Document:
    """The object at a field, or an empty one that is not stored in the document."""
    found: Document = document.get(field) or {}
    return found


def entries(document: Document, field: str) -> list[Document]:
    """The list of objects at a field. The objects are those of the document, the list may not be."""
    found: list[Document] = document.get(field) or []
    return found


def texts(document: Document, field: str) -> list[str]:
    """The list of strings at a field."""
    found: list[str] = document.get(field) or []
    return found


def ensure(document: Document, field: str, value: Any) -> None:
    """Set a field whose Go type is a pointer, unless it is set."""
    if document.get(field) is None:
        document[field] = value


def ensure_filled(document: Document, field: str, value: Any) -> None:
    """Set a field whose Go type is no pointer: its zero value counts as absent."""
    if not document.get(field):
        document[field] = value


def set_or_drop(document: Document, field: str, value: Any) -> None:
    """Set a field, or take it out where the value is None."""
    if value is None:
        document.pop(field, None)
    else:
        document[field] = value
