# SPDX-License-Identifier: Apache-2.0
"""Which requests may be sent again, and after how long (H-7 to H-13).

An answer of 429 or 5xx with a numeric Retry-After is repeated for every verb: the server said so. A lost connection is
repeated for reads only; a write that may have arrived is the caller's to judge. A version that the server has not seen
yet is not waited for either: the caller has better things to ask (R-12).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from trainwright.controller.runtime.client.transport import Request, Response
from trainwright.controller.runtime.errors import ConnectionLost, RequestTimeout, TransportError

RETRIES = 10
"""Per request, beyond the first attempt."""
LOST_SECONDS = 1.0
"""Wait before a read is repeated after its connection broke."""

_READS = frozenset({"GET", "HEAD"})


def retry_after(headers: Mapping[str, str], status: int) -> float | None:
    """Seconds that an answer asks to wait before it is repeated; None: do not repeat."""
    if status != 429 and status < 500:
        return None
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        return None  # the date form, which the API server never sends


async def send_with_retries(
    send: Callable[[Request], Awaitable[Response]],
    request: Request,
    *,
    on_attempt: Callable[[Request, int | None], None] | None = None,
) -> tuple[Response, int]:
    """Send until the answer is final; gives it and the number of attempts.

    `on_attempt` sees the status of each, None where no answer came.
    """
    attempt = 0
    while True:
        attempt += 1
        try:
            response = await send(request)
        except TransportError as error:
            if on_attempt:
                on_attempt(request, None)
            repeatable = request.method in _READS and isinstance(error, (ConnectionLost, RequestTimeout))
            if not repeatable or attempt > RETRIES:
                if attempt > 1:
                    error.add_note(f"attempt {attempt}")
                raise
            await asyncio.sleep(LOST_SECONDS)
            continue
        if on_attempt:
            on_attempt(request, response.status)
        wait = retry_after(response.headers, response.status)
        if wait is None or attempt > RETRIES or b'"ResourceVersionTooLarge"' in response.body:
            return response, attempt
        await asyncio.sleep(wait)
