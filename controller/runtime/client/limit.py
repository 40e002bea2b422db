# SPDX-License-Identifier: Apache-2.0
"""A limit on the requests to the API server, for those who want one (H-1, H-3, H-4).

Without it the server's own priority and fairness decides, and its 429 is obeyed. Each request takes a token, each
repetition of one too; streams take none, since a watch must not keep a write waiting. A write whose replica stopped
leading while it waited is refused when its bytes are handed to the socket.
"""

import asyncio
import logging
from contextlib import AbstractAsyncContextManager

from trainwright.controller.runtime.client.transport import Request, Response, Stream, Transport
from trainwright.controller.runtime.workqueue.limiters import TokenBucket

log = logging.getLogger(__name__)

REPORT_SECONDS = 1.0
"""A wait of more than this is logged, and none for ten seconds after that."""
_REPORT_PAUSE_SECONDS = 10.0


class LimitedTransport:
    """A transport that sends `burst` requests at once and then `rate` per second."""

    def __init__(self, transport: Transport, *, rate: float, burst: int) -> None:
        """Make it inside a running event loop."""
        self._transport = transport
        self._time = asyncio.get_running_loop().time
        self._bucket = TokenBucket(rate, burst, time=self._time)
        self._rate = rate
        self._reported = float("-inf")

    async def send(self, request: Request) -> Response:
        """Send once there is a token; see Transport."""
        wait = self._bucket.delay(None)
        if wait > 0:
            if wait > REPORT_SECONDS and self._time() - self._reported > _REPORT_PAUSE_SECONDS:
                self._reported = self._time()
                log.info(
                    "%s waits %.1f s for the client's own limit of %g requests a second", request, wait, self._rate
                )
            await asyncio.sleep(wait)
        return await self._transport.send(request)

    def open(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """Not limited; see Transport."""
        return self._transport.open(request)

    async def close(self) -> None:
        """Close the transport behind it."""
        await self._transport.close()
