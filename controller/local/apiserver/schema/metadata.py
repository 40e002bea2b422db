# SPDX-License-Identifier: Apache-2.0
"""The metadata of objects, also of those embedded in others: decoded into its struct, and validated.

Source: `k8s.io/apimachinery/pkg/api/validation`, `apiextensions-apiserver/pkg/apiserver/schema/objectmeta`.
"""

from collections.abc import Iterator
from typing import Any

from trainwright.api import names
from trainwright.controller.local.types.errors import DocumentError, forbidden, invalid, required, too_long
from trainwright.controller.local.types.go_json import decode, normalize
from trainwright.controller.local.types.model import OBJECT_META, builtin

Document = dict[str, Any]

_ANNOTATIONS_LIMIT = 256 * 1024
_MANAGER_LIMIT = 128
_ZERO_YEAR = "0001-"
"""Of Go's zero time, which is none."""
_IMMUTABLE = (
    *("name", "namespace", "uid"),
    *("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
)


def decode_metadata(value: Any) -> tuple[Document, list[str]]:
    """Metadata as ObjectMeta reads and writes it, made of the given, and the paths of unknown fields in it.

    Raises DocumentDecodeError where a field is of the wrong type.
    """
    if value is None:
        return {}, []
    # The server writes metadata to JSON before it reads the struct, which sorts what it finds first.
    value = _sorted(value)
    dropped = decode(builtin(OBJECT_META), value)
    for name in ("creationTimestamp", "deletionTimestamp"):
        if value.get(name, "").startswith(_ZERO_YEAR):
            del value[name]
    normalize(value, OBJECT_META)
    return value, dropped


def _sorted(value: Any) -> Any:
    if type(value) is not dict:
        return value
    made = {name: value[name] for name in sorted(value)}
    for name in ("ownerReferences", "managedFields"):
        if type(made.get(name)) is list:
            made[name] = [
                {key: item[key] for key in sorted(item)} if type(item) is dict else item for item in made[name]
            ]
    return made


def validate_metadata(
    metadata: Document,
    *,
    namespaced: bool,
    name_rule: names.NameRule = names.path_segment,
    path: str = "metadata",
) -> list[DocumentError]:
    """The errors of the metadata of any object, whose values have the right types and whose name has been generated."""
    found: list[DocumentError] = []
    prefix, name, namespace = metadata.get("generateName"), metadata.get("name"), metadata.get("namespace")
    if prefix:
        rule = names.path_segment_prefix if name_rule is names.path_segment else names.as_prefix(name_rule)
        found += [invalid(f"{path}.generateName", prefix, one) for one in rule(prefix)]
    if not name:
        found.append(required(f"{path}.name", "name or generateName is required"))
    else:
        found += [invalid(f"{path}.name", name, one) for one in name_rule(name)]
    if namespaced and not namespace:
        found.append(required(f"{path}.namespace"))
    elif namespaced:
        found += [invalid(f"{path}.namespace", namespace, one) for one in names.dns_label(namespace or "")]
    elif namespace:
        found.append(forbidden(f"{path}.namespace", "not allowed on this type"))
    if (metadata.get("generation") or 0) < 0:
        wrong = "must be greater than or equal to 0"
        found.append(invalid(f"{path}.generation", metadata["generation"], wrong))
    found += _labels(metadata, path)
    found += _owners(metadata.get("ownerReferences") or (), f"{path}.ownerReferences")
    found += _finalizers(metadata.get("finalizers") or [], f"{path}.finalizers")
    found += _managers(metadata.get("managedFields") or (), f"{path}.managedFields")
    return found


def validate_metadata_update(new: Document, old: Document, *, path: str = "metadata") -> list[DocumentError]:
    """The errors of metadata at an update: what may not change, and the rules of labels, owners and managers."""
    found: list[DocumentError] = []
    if old.get("deletionTimestamp"):
        added = sorted(set(new.get("finalizers") or ()) - set(old.get("finalizers") or ()))
        if added:
            text = f"{', '.join(added)} cannot be added, because the object is being deleted"
            found.append(forbidden(f"{path}.finalizers", text))
    if not new.get("resourceVersion"):
        found.append(invalid(f"{path}.resourceVersion", "", "must be specified for an update"))
    if (new.get("generation") or 0) < (old.get("generation") or 0):
        found.append(invalid(f"{path}.generation", new.get("generation", 0), "must not be decremented"))
    found += [
        invalid(f"{path}.{name}", new.get(name), "field is immutable")
        for name in _IMMUTABLE
        if new.get(name) != old.get(name) and {new.get(name), old.get(name)} != {None, ""}
    ]
    found += _labels(new, path)
    found += _owners(new.get("ownerReferences") or (), f"{path}.ownerReferences")
    found += _managers(new.get("managedFields") or (), f"{path}.managedFields")
    return found


def _labels(metadata: Document, path: str) -> Iterator[DocumentError]:
    for key, value in (metadata.get("labels") or {}).items():
        for one in names.qualified(key):
            yield invalid(f"{path}.labels", key, one)
        for one in names.label_value(value):
            yield invalid(f"{path}.labels", value, one)
    annotations: dict[str, str] = metadata.get("annotations") or {}
    for key in annotations:
        for one in names.qualified(key.lower()):
            yield invalid(f"{path}.annotations", key, one)
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _ANNOTATIONS_LIMIT:
        yield too_long(f"{path}.annotations", _ANNOTATIONS_LIMIT)


def _owners(owners: Any, path: str) -> Iterator[DocumentError]:
    controller = False
    for owner in owners:
        # The server does not say which reference it is.
        version = owner.get("apiVersion") or ""
        if version.count("/") > 1 or not version.rpartition("/")[2]:
            yield invalid(f"{path}.apiVersion", version, "version must not be empty")
        for name in ("kind", "name", "uid"):
            if not owner.get(name):
                yield invalid(f"{path}.{name}", "", "must not be empty")
        if (version, owner.get("kind")) == ("v1", "Event"):
            yield invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner")
        if owner.get("controller"):
            if controller:
                yield invalid(path, list(owners), "only one owner can be the controller")
            controller = True


def _finalizers(finalizers: list[str], path: str) -> Iterator[DocumentError]:
    for finalizer in finalizers:
        for one in names.qualified(finalizer):
            yield invalid(path, finalizer, one)
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        yield invalid(path, finalizers, "finalizer orphan and foregroundDeletion cannot be both set")


def _managers(entries: Any, path: str) -> Iterator[DocumentError]:
    for index, entry in enumerate(entries):
        at = f"{path}[{index}]"
        if entry.get("operation") not in ("Apply", "Update"):
            yield invalid(f"{at}.operation", entry.get("operation") or "", "must be `Apply` or `Update`")
        if (entry.get("fieldsType") or "FieldsV1") != "FieldsV1":
            yield invalid(f"{at}.fieldsType", entry["fieldsType"], "must be `FieldsV1`")
        yield from manager_errors(entry.get("manager") or "", f"{at}.manager")
        if len((entry.get("subresource") or "").encode()) > 256:
            yield too_long(f"{at}.subresource", 256)


def manager_errors(manager: str, field: str = "fieldManager") -> Iterator[DocumentError]:
    """Errors of the name of a field manager."""
    if len(manager.encode()) > _MANAGER_LIMIT:
        yield too_long(field, _MANAGER_LIMIT)
    for character in manager:
        if not character.isprintable():
            yield invalid(field, manager, f"the character U+{ord(character):04X} cannot be printed")
