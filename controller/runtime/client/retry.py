# SPDX-License-Identifier: Apache-2.0
"""Decides which requests are sent again, and when.

An answer of 429 or 5xx with a numeric Retry-After is retried for every verb, because the server asks for it. A lost
connection is retried for reads only; the outcome of a write is unknown, and the caller decides. A resource version that
the server has not reached yet is not waited for: the caller can list without it. All attempts and the waits between
them share one time limit, so that a server that hangs does not hold its caller for a multiple of it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from trainwright.controller.runtime.client.transport import READS, Request, Response
from trainwright.controller.runtime.errors import ConnectionLost, RequestTimeout, TransportError
from trainwright.controller.runtime.tasks import limited

RETRIES = 10
"""Retries per request, where a client has no other number."""
LOST_SECONDS = 1.0
"""Wait before a read is retried after its connection broke."""


def retry_after(headers: Mapping[str, str], status: int) -> float | None:
    """Seconds to wait before a retry; None: do not retry."""
    if status != 429 and status < 500:
        return None
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        return None  # a date, which the API server never sends


async def send_with_retries(
    send: Callable[[Request], Awaitable[Response]],
    request: Request,
    *,
    limit: float,
    on_attempt: Callable[[Request, int | None], None] | None = None,
    retries: int = RETRIES,
) -> tuple[Response, int]:
    """Send until the answer is final. Returns the answer and the number of attempts.

    `limit` is in seconds. A retry that it leaves no time for is not waited for: the last answer is final then.
    `on_attempt` is called with the status of each attempt, None without an answer.
    """
    time = asyncio.get_running_loop().time
    deadline = time() + limit
    attempt = 0

    def late() -> RequestTimeout:
        return RequestTimeout(f"{request}: no answer within {limit:g} s")

    while True:
        attempt += 1
        try:
            # Whatever it waits for counts: a connection, the client's own limit of requests, credentials.
            async with limited(asyncio.timeout_at(deadline), late):
                response = await send(request)
        except TransportError as error:
            if on_attempt:
                on_attempt(request, None)
            repeatable = request.method in READS and isinstance(error, (ConnectionLost, RequestTimeout))
            if not repeatable or attempt > retries or time() + LOST_SECONDS >= deadline:
                if attempt > 1:
                    error.add_note(f"attempt {attempt}")
                raise
            await asyncio.sleep(LOST_SECONDS)
            continue
        if on_attempt:
            on_attempt(request, response.status)
        wait = retry_after(response.headers, response.status)
        if wait is None or attempt > retries or b'"ResourceVersionTooLarge"' in response.body:
            return response, attempt
        if time() + wait >= deadline:
            return response, attempt
        await asyncio.sleep(wait)
