# SPDX-License-Identifier: Apache-2.0
"""Owner references: whose an object is (C-30)."""

from trainwright.api.base import Resource
from trainwright.controller.runtime.errors import ConfigurationError, NotControlled
from trainwright.controller.runtime.objects import AnyObject, Document, controller_of, name_of, namespace_of, uid_of


def owner_reference(owner: AnyObject, resource: Resource) -> Document:
    """The reference that makes `owner` the controller. Raises ConfigurationError for an owner without a uid."""
    if not uid_of(owner):
        raise ConfigurationError(f"{resource.kind} {name_of(owner)} has no uid: only a stored object can own others")
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owned_document(document: Document, reference: Document, owner: AnyObject, *, namespaced: bool) -> Document:
    """The document with the reference in it; other references that it asks for stay.

    Raises ConfigurationError if owner and child cannot be related: a namespaced owner and a cluster-scoped child, or
    different namespaces.
    """
    metadata = document.get("metadata") or {}
    space = namespace_of(owner)
    if space and not namespaced:
        raise ConfigurationError(f"{document.get('kind')} {metadata.get('name')}: cluster-scoped, its owner is not")
    if space and metadata.get("namespace") != space:
        raise ConfigurationError(
            f"{document.get('kind')} {metadata.get('name')}: in {metadata.get('namespace')!r}, its owner in {space!r}"
        )
    others = [r for r in metadata.get("ownerReferences") or () if r.get("uid") != reference["uid"]]
    return {**document, "metadata": {**metadata, "ownerReferences": [*others, reference]}}


def refuse_foreign(live: AnyObject, kind: str, owner_uid: str, *, adopt: bool) -> None:
    """Raise NotControlled unless `live` is the owner's already, or is nobody's and may be adopted."""
    controller = controller_of(live)
    if controller is not None and controller.uid == owner_uid:
        return
    if controller is None and adopt:
        return
    name = name_of(live)
    if controller is None:
        raise NotControlled(f"{kind} {name} exists and nobody controls it: delete or rename it, it is left untouched")
    raise NotControlled(
        f"{kind} {name} is controlled by {controller.kind} {controller.name}: it is left untouched; use another name"
    )
