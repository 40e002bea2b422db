# SPDX-License-Identifier: Apache-2.0
"""TokenReview: asks the API server whose a token is.

https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-review-v1/
Results are remembered by the digest of the token; the token itself is not kept.
"""

import asyncio
import hashlib
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from trainwright.api.kubernetes.authentication.v1 import TokenReview
from trainwright.api.rights import Rule
from trainwright.api.surroundings import fraction
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.errors import KubernetesError, TokensUnavailable
from trainwright.controller.runtime.kinds import decoded
from trainwright.controller.runtime.workqueue.limiters import TokenBucket

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TokenMemory(Generic[K, V]):
    """Values by key, each with a time at which it is forgotten."""

    def __init__(self, most: int, *, time: Callable[[], float]) -> None:
        """`most`: entries. `time`: a clock in seconds that never goes back."""
        self._most = most
        self._time = time
        self._held: dict[K, tuple[float, V]] = {}

    def get(self, key: K) -> V | None:
        """The value, or None if it is not remembered."""
        held = self._held.get(key)
        if held is None:
            return None
        if held[0] <= self._time():
            del self._held[key]
            return None
        return held[1]

    def put(self, key: K, value: V, seconds: float) -> None:
        self._held.pop(key, None)
        while len(self._held) >= self._most:
            del self._held[next(iter(self._held))]
        self._held[key] = (self._time() + seconds, value)

    def __len__(self) -> int:
        return len(self._held)


REMEMBERED = 1000
"""Results that are remembered."""
RETRY_SECONDS = 0.5
RETRY_FACTOR = 1.5
WAIT_SECONDS = 2.0
"""Longest wait for a turn where reviews are limited."""


class _Review(msgspec.Struct):
    status: dict[str, Any] | None = None


_REVIEW = msgspec.json.Decoder(_Review)
_HEADERS = {"Accept": "application/json", "Content-Type": "application/json"}
_PATH = "/apis/authentication.k8s.io/v1/tokenreviews"


@dataclass(frozen=True, slots=True)
class Reviewed:
    """The owner of a token."""

    name: str
    uid: str
    groups: tuple[str, ...]


class TokenReviewer:
    """Asks for reviews, not more often than allowed, and remembers the results."""

    RULES = (Rule.on(TokenReview.RESOURCE, "create"),)

    def __init__(
        self,
        client: Client,
        *,
        accepted_seconds: float = 60.0,
        refused_seconds: float = 10.0,
        rate: float | None = None,
        attempts: int = 1,
        time: Callable[[], float] | None = None,
    ) -> None:
        """Create it inside a running event loop, or give `time`.

        Args:
            client: sends the reviews.
            accepted_seconds: how long a valid token is remembered.
            refused_seconds: how long an invalid one is.
            rate: most reviews in a second; None: no limit.
            attempts: how often a review is sent that the API server does not answer.
            time: in seconds; None: the clock of the event loop.
        """
        self._client = client
        self._seconds = {True: accepted_seconds, False: refused_seconds}
        self._attempts = attempts
        self._time = time or (lambda: asyncio.get_running_loop().time())
        self._memory: TokenMemory[tuple[bytes, str], Reviewed | bool] = TokenMemory(REMEMBERED, time=self._time)
        self._rate = rate
        self._bucket: TokenBucket | None = None

    async def owner(self, token: str, audience: str = "") -> Reviewed | None:
        """The owner of a token; None if the API server refuses it.

        Args:
            token: as it comes after `Bearer`.
            audience: which the token must be for; empty: the API server.

        Raises:
            KubernetesError: the API server gave no answer.
            TokensUnavailable: too many reviews are wanted at the moment.
        """
        if not token.isascii():
            return None  # no bearer token is; RFC 6750, section 2.1
        key = hashlib.sha256(token.encode()).digest(), audience
        known = self._memory.get(key)
        if known is None:
            await self._turn()
            found = await self._ask(token, audience)
            known = found if found is not None else False
            self._memory.put(key, known, self._seconds[found is not None])
        return known if isinstance(known, Reviewed) else None

    async def _ask(self, token: str, audience: str) -> Reviewed | None:
        spec: dict[str, Any] = {"token": token}
        if audience:
            spec["audiences"] = [audience]
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        status = await post_review(self._client, _PATH, review, attempts=self._attempts)
        # An API server that ignores audiences answers none: https://github.com/kubernetes/enhancements (KEP-1205).
        if not status.get("authenticated") or (audience and audience not in (status.get("audiences") or ())):
            return None
        found = status.get("user") or {}
        user = Reviewed(found.get("username", ""), found.get("uid", ""), tuple(found.get("groups") or ()))
        return None if user.name == "system:anonymous" else user

    async def _turn(self) -> None:
        if self._rate is None:
            return
        if self._bucket is None:
            self._bucket = TokenBucket(self._rate, max(1, int(self._rate)), time=self._time)
        wait = self._bucket.delay_within(WAIT_SECONDS)
        if wait is None:
            raise TokensUnavailable(f"more than {self._rate:g} tokens a second need a TokenReview")
        if wait:
            await asyncio.sleep(wait)


async def post_review(client: Client, path: str, review: dict[str, Any], *, attempts: int) -> dict[str, Any]:
    """The status of a review, such as a TokenReview or a SubjectAccessReview. Raises KubernetesError."""
    body, wait = msgspec.json.encode(review), RETRY_SECONDS
    while True:
        attempts -= 1
        try:
            response = await client.send(Request("POST", path, {}, dict(_HEADERS), body))
        except KubernetesError:
            if attempts <= 0:
                raise
            await asyncio.sleep(wait * (1 + 0.2 * fraction()))
            wait *= RETRY_FACTOR
        else:
            return decoded(_REVIEW, response.body, "the answer to a review").status or {}
