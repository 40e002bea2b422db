# SPDX-License-Identifier: Apache-2.0
"""An own write in progress, as the informers of its kind see it."""

from typing import Any

from trainwright.api.objects import AnyObject
from trainwright.controller.runtime.cache.echo import Flight
from trainwright.controller.runtime.cache.informer import Informer
from trainwright.controller.runtime.kinds import Codec


class CachedWrite:
    """Reports the end of a write to every informer of the kind; see PendingWrite."""

    def __init__(self, flights: list[tuple[Informer, Flight]]) -> None:
        self._flights = flights

    def written(self, codec: Codec[Any], obj: AnyObject) -> None:
        """The server answered with the written object."""
        for informer, flight in self._flights:
            informer.landed(flight, codec, obj)

    def deleted(self, uid: str) -> None:
        """The server answered that the object is deleted."""
        for informer, flight in self._flights:
            informer.landed_deleted(flight, uid)

    def failed(self) -> None:
        """The write was refused, or its outcome is unknown."""
        for informer, flight in self._flights:
            informer.crashed(flight)
