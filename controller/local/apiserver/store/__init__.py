# SPDX-License-Identifier: Apache-2.0
"""The objects of a cluster: current ones, their recent history, and who watches.

One counter of resource versions serves the whole cluster. All current objects live in memory as encoded bytes, so reads
never touch the disk. A durable store writes the changes of one turn of the loop in one transaction, and tells of a
change only after that.
"""

from trainwright.controller.local.apiserver.store.disk import Disk, StateFileError, StateLostError
from trainwright.controller.local.apiserver.store.objects import (
    Collection,
    ObjectName,
    ObjectTooLarge,
    Overflow,
    StoreChange,
    StoredObject,
    StoreWatch,
)
from trainwright.controller.local.apiserver.store.store import Changed, Expired, ObjectStore

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
