# SPDX-License-Identifier: Apache-2.0
"""Errors of the metadata of any object; `rules/metadata.json` has most of them.

Source: `k8s.io/apimachinery/pkg/api/validation`, `apiextensions-apiserver/pkg/apiserver/schema/objectmeta`.
"""

from trainwright.api import names
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.formats import Errors
from trainwright.controller.local.apiserver.kinds.metadata import FOREGROUND, ORPHAN
from trainwright.controller.local.apiserver.kinds.rules import check, register
from trainwright.controller.local.types.errors import DocumentError, forbidden, invalid, required, too_long

_ANNOTATIONS_LIMIT = 256 * 1024
_MANAGER_LIMIT = 128
_IMMUTABLE = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


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
    return found + check("NewMetadata", metadata, path)


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
    return found + check("Metadata", new, path)


@register("size of annotations")
def _annotation_errors(annotations: dict[str, str], field: str, _: Document) -> Errors:
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    return [too_long(field, _ANNOTATIONS_LIMIT)] if size > _ANNOTATIONS_LIMIT else []


@register("owners")
def _owner_errors(owners: list[Document], field: str, _: Document) -> Errors:
    text = "/v1, Kind=Event is disallowed from being an owner"
    found = [invalid(field, one, text) for one in owners if (one.get("apiVersion"), one.get("kind")) == ("v1", "Event")]
    several = sum(bool(one.get("controller")) for one in owners) > 1
    return [*found, invalid(field, owners, "only one owner can be the controller")] if several else found


@register("finalizers beside each other")
def _finalizer_errors(finalizers: list[str], field: str, _: Document) -> Errors:
    text = "finalizer orphan and foregroundDeletion cannot be both set"
    return [invalid(field, finalizers, text)] if {ORPHAN, FOREGROUND} <= set(finalizers) else []


@register("name of a manager")
def manager_errors(manager: str, field: str, _: Document) -> Errors:
    """Errors of the name of a field manager."""
    found = [too_long(field, _MANAGER_LIMIT)] if len(manager.encode()) > _MANAGER_LIMIT else []
    odd = (one for one in manager if not one.isprintable())
    return found + [invalid(field, manager, f"the character U+{ord(one):04X} cannot be printed") for one in odd]
