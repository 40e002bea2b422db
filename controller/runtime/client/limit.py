# SPDX-License-Identifier: Apache-2.0
"""An optional limit on the requests to the API server.

Without it the server's priority and fairness decides, and its 429 is obeyed. Each request and each retry takes a token.
Streams and websockets take none, because a watch must not delay a write. A write that waited until its replica lost
leadership is refused when its bytes are handed to the socket.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from trainwright.controller.runtime.client.transport import Request, Response, Stream, Transport, WebSocket
from trainwright.controller.runtime.workqueue.limiters import TokenBucket

log = logging.getLogger(__name__)

REPORT_SECONDS = 1.0
"""A longer wait is logged, at most once in ten seconds."""
_REPORT_PAUSE_SECONDS = 10.0


class LimitedTransport:
    """A transport that sends up to `burst` requests at once, then `rate` per second."""

    def __init__(self, transport: Transport, *, rate: float, burst: int) -> None:
        """Create it inside a running event loop."""
        self._transport = transport
        self._time = asyncio.get_running_loop().time
        self._bucket = TokenBucket(rate, burst, time=self._time)
        self._rate = rate
        self._reported = float("-inf")

    async def send(self, request: Request) -> Response:
        """Wait for a token, then send; see Transport."""
        wait = self._bucket.delay()
        if wait > 0:
            if wait > REPORT_SECONDS and self._time() - self._reported > _REPORT_PAUSE_SECONDS:
                self._reported = self._time()
                log.info(
                    "%s waits %.1f s because of the client's limit of %g requests per second", request, wait, self._rate
                )
            try:
                await asyncio.sleep(wait)
            except asyncio.CancelledError:
                self._bucket.give_back()  # or later requests would wait for one that was never sent
                raise
        return await self._transport.send(request)

    def open(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        return self._transport.open(request)

    def connect(
        self, request: Request, protocols: Sequence[str], *, limit: int
    ) -> AbstractAsyncContextManager[WebSocket]:
        return self._transport.connect(request, protocols, limit=limit)

    async def close(self) -> None:
        """Close the wrapped transport."""
        await self._transport.close()
