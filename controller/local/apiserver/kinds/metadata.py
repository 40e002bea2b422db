# SPDX-License-Identifier: Apache-2.0
"""The rules of `metadata`, which hold for all kinds."""

from datetime import datetime
from typing import Any

from trainwright.api import times
from trainwright.api.objects import Document
from trainwright.api.surroundings import new_uid
from trainwright.api.validation import DocumentError
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.kinds import names
from trainwright.controller.local.apiserver.kinds.fields import not_allowed, required, too_long, wrong
from trainwright.controller.local.apiserver.kinds.names import NameRule

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
IMMUTABLE = "field is immutable"
_ANNOTATIONS_BYTES = 256 * 1024
_MANAGER_BYTES = 128
_SUBRESOURCE_BYTES = 256
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
        metadata["name"] = names.generated(metadata["generateName"])


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


def validate(metadata: Document, *, namespaced: bool, name_rule: NameRule = names.path_segment) -> list[DocumentError]:
    """Errors of the metadata of any object."""
    found: list[DocumentError] = []
    prefix, name = metadata.get("generateName"), metadata.get("name")
    if prefix:
        found += [wrong("metadata.generateName", prefix, text) for text in name_rule(prefix, True)]
    if not name:
        found.append(required("metadata.name", "name or generateName is required"))
    else:
        found += [wrong("metadata.name", name, text) for text in name_rule(name, False)]
    found += _namespace_errors(metadata.get("namespace"), namespaced=namespaced)
    found += _key_errors(metadata)
    found += _owner_errors(metadata.get("ownerReferences") or [])
    found += _finalizer_errors(metadata.get("finalizers") or [])
    found += _managed_fields_errors(metadata.get("managedFields") or [])
    return found


def validate_update(metadata: Document, old: Document) -> list[DocumentError]:
    """Errors of what an update changes."""
    found: list[DocumentError] = []
    if old.get("deletionTimestamp"):
        extra = sorted(set(metadata.get("finalizers") or ()) - set(old.get("finalizers") or ()))
        if extra:
            listed = ", ".join(f'"{name}"' for name in extra)
            found.append(
                not_allowed(
                    "metadata.finalizers",
                    "no new finalizers can be added if the object is being deleted, "
                    f"found new finalizers []string{{{listed}}}",
                )
            )
    if not metadata.get("resourceVersion"):
        found.append(wrong("metadata.resourceVersion", "", "must be specified for an update"))
    found += [
        wrong(f"metadata.{field}", metadata.get(field) or "", IMMUTABLE)
        for field in ("name", "namespace", "uid")
        if (metadata.get(field) or "") != (old.get(field) or "")
    ]
    found += [
        wrong(f"metadata.{field}", metadata.get(field), IMMUTABLE)
        for field in ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
        if metadata.get(field) != old.get(field)
    ]
    # Once more than `validate`, as the real server does: each of these causes is there twice.
    found += _key_errors(metadata)
    found += _owner_errors(metadata.get("ownerReferences") or [])
    found += _managed_fields_errors(metadata.get("managedFields") or [])
    return found


def _key_errors(metadata: Document) -> list[DocumentError]:
    found: list[DocumentError] = []
    for key, value in (metadata.get("labels") or {}).items():
        found += [wrong("metadata.labels", key, text) for text in names.qualified(key)]
        found += [wrong("metadata.labels", value, text) for text in names.label_value(value)]
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        found += [wrong("metadata.annotations", key, text) for text in names.qualified(key.lower())]
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _ANNOTATIONS_BYTES:
        found.append(too_long("metadata.annotations", _ANNOTATIONS_BYTES))
    return found


def _namespace_errors(namespace: str | None, *, namespaced: bool) -> list[DocumentError]:
    if not namespaced:
        return [not_allowed("metadata.namespace", "not allowed on this type")] if namespace else []
    if not namespace:
        return [required("metadata.namespace")]
    return [wrong("metadata.namespace", namespace, text) for text in names.label(namespace)]


def _owner_errors(references: list[Document]) -> list[DocumentError]:
    found: list[DocumentError] = []
    controller = ""
    for reference in references:
        version = str(reference.get("apiVersion") or "")
        if version.count("/") > 1 or not version.rpartition("/")[2]:
            found.append(wrong("metadata.ownerReferences.apiVersion", version, "version must not be empty"))
        found += [
            wrong(f"metadata.ownerReferences.{field}", reference.get(field) or "", "must not be empty")
            for field in ("kind", "name", "uid")
            if not reference.get(field)
        ]
        if (version, reference.get("kind")) == ("v1", "Event"):
            found.append(
                wrong("metadata.ownerReferences", reference, "/v1, Kind=Event is disallowed from being an owner")
            )
        if reference.get("controller"):
            this = f"{reference.get('kind')}/{reference.get('name')}"
            if controller:
                found.append(
                    wrong(
                        "metadata.ownerReferences",
                        references,
                        'Only one reference can have Controller set to true. Found "true" in references for '
                        f"{controller} and {this}",
                    )
                )
            else:
                controller = this
    return found


def _finalizer_errors(finalizers: list[str]) -> list[DocumentError]:
    found = [wrong("metadata.finalizers", name, text) for name in finalizers for text in names.qualified(name)]
    if ORPHAN in finalizers and FOREGROUND in finalizers:
        text = f"finalizer {ORPHAN} and {FOREGROUND} cannot be both set"
        found.append(wrong("metadata.finalizers", finalizers, text))
    return found


def _managed_fields_errors(entries: list[Document]) -> list[DocumentError]:
    found: list[DocumentError] = []
    for index, entry in enumerate(entries):
        field = f"metadata.managedFields[{index}]"
        if entry.get("operation") not in ("Apply", "Update"):
            found.append(wrong(f"{field}.operation", entry.get("operation") or "", "must be `Apply` or `Update`"))
        if entry.get("fieldsType") not in (None, "", "FieldsV1"):
            found.append(wrong(f"{field}.fieldsType", entry.get("fieldsType"), "must be `FieldsV1`"))
        found += manager_errors(entry.get("manager") or "", f"{field}.manager")
        if len((entry.get("subresource") or "").encode()) > _SUBRESOURCE_BYTES:
            found.append(too_long(f"{field}.subresource", _SUBRESOURCE_BYTES))
    return found


def manager_errors(manager: str, field: str = "fieldManager") -> list[DocumentError]:
    """Errors of the name of a field manager."""
    found = [too_long(field, _MANAGER_BYTES)] if len(manager.encode()) > _MANAGER_BYTES else []
    position = 0
    for character in manager:
        if not character.isprintable():
            text = f"invalid character U+{ord(character):04X} (at position {position})"
            found.append(wrong(field, manager, text))
        position += len(character.encode())
    return found
