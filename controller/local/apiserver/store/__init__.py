# SPDX-License-Identifier: Apache-2.0
"""The objects of a cluster: current ones, their recent history, and who watches.

One counter of resource versions serves the whole cluster. All current objects live in memory as encoded bytes, so reads
never touch the disk. A durable store writes the changes of one turn of the loop in one transaction, and tells of a
change only after that.
"""

from trainwright.controller.local.apiserver.store.changes import StoreChange
from trainwright.controller.local.apiserver.store.disk import Disk, StateFileError, StateLostError
from trainwright.controller.local.apiserver.store.objects import ObjectName, ObjectTooLarge, StoredObject
from trainwright.controller.local.apiserver.store.store import Changed, Collection, Expired, ObjectStore
from trainwright.controller.local.apiserver.store.watching import Overflow, StoreWatch

__all__ = [
    "Changed",
    "Collection",
    "Disk",
    "Expired",
    "ObjectName",
    "ObjectStore",
    "ObjectTooLarge",
    "Overflow",
    "StateFileError",
    "StateLostError",
    "StoreChange",
    "StoreWatch",
    "StoredObject",
]
