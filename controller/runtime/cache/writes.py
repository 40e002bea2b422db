# SPDX-License-Identifier: Apache-2.0
"""One write of ours on its way, as the informers of its kind see it."""

from typing import Any

from trainwright.controller.runtime.cache.echo import Flight
from trainwright.controller.runtime.cache.informer import Informer
from trainwright.controller.runtime.kinds import Codec
from trainwright.controller.runtime.objects import AnyObject


class CachedWrite:
    """Passes the end of a write on to every informer of the kind; see PendingWrite."""

    def __init__(self, flights: list[tuple[Informer, Flight]]) -> None:
        self._flights = flights

    def written(self, codec: Codec[Any], obj: AnyObject) -> None:
        """The answer is the object as it is now."""
        for informer, flight in self._flights:
            informer.landed(flight, codec, obj)

    def deleted(self, uid: str) -> None:
        """The answer is that it is gone."""
        for informer, flight in self._flights:
            informer.landed_deleted(flight, uid)

    def failed(self) -> None:
        """Refused or unknown."""
        for informer, flight in self._flights:
            informer.crashed(flight)
