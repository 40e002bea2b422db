# SPDX-License-Identifier: Apache-2.0
"""The objects of a cluster: current ones, their recent history, and who watches.

One counter of resource versions serves the whole cluster. All current objects live in memory as encoded bytes, so reads
never touch the disk. A durable store writes the changes of one turn of the loop in one transaction, and tells of a
change only after that.
"""

from trainwright.controller.local.apiserver.store.changes import Change
from trainwright.controller.local.apiserver.store.disk import Disk, StateFileError, StateLostError
from trainwright.controller.local.apiserver.store.objects import Name, Stored
from trainwright.controller.local.apiserver.store.store import Changed, Collection, Expired, Store
from trainwright.controller.local.apiserver.store.watching import Overflow, Watch

__all__ = [
    "Change",
    "Changed",
    "Collection",
    "Disk",
    "Expired",
    "Name",
    "Overflow",
    "StateFileError",
    "StateLostError",
    "Store",
    "Stored",
    "Watch",
]
