# SPDX-License-Identifier: Apache-2.0
"""The owner reference that makes one object the controller of another.

Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/owners-dependents/
"""

from trainwright.api.base import Resource
from trainwright.api.objects import AnyObject, Document, name_of, uid_of


def owner_reference(owner: AnyObject, resource: Resource) -> Document:
    """The reference in wire form. `resource` is the owner's kind.

    The uid is empty for an owner that was never stored; the API server refuses such a reference.
    """
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }
