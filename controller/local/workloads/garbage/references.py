# SPDX-License-Identifier: Apache-2.0
"""Owner references and the two finalizers of deletion. Pure functions on objects of any representation."""

from collections.abc import Collection, Iterable
from typing import Any

from trainwright.api.objects import AnyObject, Document, deletion_timestamp_of, finalizers_of

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


def references_of(obj: AnyObject) -> list[Document]:
    """`metadata.ownerReferences` in wire form."""
    if isinstance(obj, dict):
        return list((obj.get("metadata") or {}).get("ownerReferences") or ())
    metadata: Any = obj.metadata
    return [
        {
            "apiVersion": reference.api_version,
            "kind": reference.kind,
            "name": reference.name,
            "uid": reference.uid,
            **({} if reference.controller is None else {"controller": reference.controller}),
            **(
                {} if reference.block_owner_deletion is None else {"blockOwnerDeletion": reference.block_owner_deletion}
            ),
        }
        for reference in (metadata.owner_references if metadata is not None else None) or ()
    ]


def owner_uids(obj: AnyObject) -> Iterable[str]:
    """The uids of all owners; the index of dependents."""
    return [str(reference.get("uid")) for reference in references_of(obj)]


def group_of(reference: Document) -> str:
    """The API group of an owner. Its version is not looked at: another one may be served by now."""
    return str(reference.get("apiVersion") or "").rpartition("/")[0]


def is_waiting(obj: AnyObject) -> bool:
    """Whether the object is being deleted and waits for its dependents."""
    return deletion_timestamp_of(obj) is not None and FOREGROUND in finalizers_of(obj)


def is_orphaning(obj: AnyObject) -> bool:
    """Whether the object is being deleted and gives up its dependents."""
    return deletion_timestamp_of(obj) is not None and ORPHAN in finalizers_of(obj)


def blocks(obj: AnyObject, owner: str) -> bool:
    """Whether the object holds up the deletion of the owner with this uid."""
    return any(r.get("uid") == owner and r.get("blockOwnerDeletion") for r in references_of(obj))


def without(obj: AnyObject, owners: Collection[str]) -> list[Document]:
    """The references of the object but for those to the owners with these uids."""
    return [reference for reference in references_of(obj) if reference.get("uid") not in owners]
