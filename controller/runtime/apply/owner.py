# SPDX-License-Identifier: Apache-2.0
"""Ownership of applied objects: sets the controller reference, and protects objects of other controllers."""

from trainwright.api.base import Resource
from trainwright.api.objects import AnyObject, Document, controller_of, name_of, namespace_of, uid_of
from trainwright.api.owners import owner_reference
from trainwright.controller.runtime.errors import ConfigurationError, NotControlled


def owned_document(document: Document, kind: Resource, owner: AnyObject, owner_kind: Resource) -> Document:
    """The document of `kind` with `owner` as its controller. Other owner references in it stay.

    Raises ConfigurationError if the owner has no uid, is namespaced while the document is cluster-scoped, or is in
    another namespace.
    """
    metadata = document.get("metadata") or {}
    name = f"{kind.kind} {metadata.get('name')}"
    space = namespace_of(owner)
    if not uid_of(owner):
        raise ConfigurationError(
            f"{name}: its owner {owner_kind.kind} {name_of(owner)} has no uid; only a stored object can own others"
        )
    if space and not kind.namespaced:
        raise ConfigurationError(f"{name} is cluster-scoped, and its owner is namespaced; use a cluster-scoped owner")
    if space and metadata.get("namespace") != space:
        raise ConfigurationError(
            f"{name} is in namespace {metadata.get('namespace')!r}, and its owner in {space!r}; use one namespace"
        )
    others = [r for r in metadata.get("ownerReferences") or () if r.get("uid") != uid_of(owner)]
    references = [*others, owner_reference(owner, owner_kind)]
    return {**document, "metadata": {**metadata, "ownerReferences": references}}


def refuse_foreign(live: AnyObject, kind: str, owner_uid: str, *, adopt: bool) -> None:
    """Raise NotControlled unless the owner controls `live`, or `live` has no controller and `adopt` is set."""
    controller = controller_of(live)
    if controller is not None and controller.uid == owner_uid:
        return
    if controller is None and adopt:
        return
    name = name_of(live)
    if controller is None:
        raise NotControlled(f"{kind} {name} exists without a controller and was not changed: delete or rename it")
    raise NotControlled(
        f"{kind} {name} is controlled by {controller.kind} {controller.name} and was not changed: use another name"
    )
