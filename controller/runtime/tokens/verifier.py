# SPDX-License-Identifier: Apache-2.0
"""Verifies bearer tokens of service accounts that are meant for a server of ours.

Tokens are verified in this process with the API server's public keys. A cluster that does not publish its keys is
asked by TokenReview instead, at most twenty times a second. All claims are checked before the signature, so a token
that is not for this server costs no request.
"""

import asyncio
import logging
from collections.abc import Callable

from trainwright.api.times import Now, wall_clock
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.errors import KubernetesError, TokenRefused, TokensUnavailable
from trainwright.controller.runtime.tokens.encoded import Claims, Encoded, parse
from trainwright.controller.runtime.tokens.issuer import PAUSE_SECONDS, Issuer
from trainwright.controller.runtime.tokens.keys import ALGORITHMS
from trainwright.controller.runtime.tokens.reviews import TokenReviewer

log = logging.getLogger(__name__)

LEEWAY_SECONDS = 60.0
"""For clocks that differ."""
REFRESH_SECONDS = 300.0
"""Between two reads of keys that are in use: for so long a withdrawn key goes on being accepted."""
RECHECK_SECONDS = 60.0
"""Between two reads of keys that the API server does not publish, while TokenReviews work."""
REVIEWS_PER_SECOND = 20.0
REVIEW_LIMIT_SECONDS = 4.0
"""Longest time that a TokenReview takes, waiting for its turn included."""

_INVALID = "invalid"
"""Reviewed to see whether reviews are answered; it is a valid token nowhere."""


class TokenVerifier:
    """Verifies tokens. Its `run` reads the keys before the first request and keeps them current."""

    RULES = TokenReviewer.RULES

    def __init__(
        self,
        client: Client,
        *,
        own: Callable[[], str] = lambda: "",
        now: Now = wall_clock,
        time: Callable[[], float] | None = None,
    ) -> None:
        """Create it inside a running event loop.

        Args:
            client: of the API server.
            own: returns the token of this process, whose issuer is accepted; see `issuer.own_token`.
            now: the time by which tokens expire.
            time: a clock in seconds that never goes back; None: that of the event loop.
        """
        clock = time or asyncio.get_running_loop().time
        self._now = now
        self._issuer = Issuer(client, own, time=clock)
        self._reviews = TokenReviewer(client, rate=REVIEWS_PER_SECOND, time=clock)
        self._no_reviews = "no TokenReview has been tried"
        """Why the last TokenReview got no answer; empty if it got one."""

    async def run(self) -> None:
        """Read the keys now and from time to time, until cancelled."""
        while True:
            pause = await self.look()
            await asyncio.sleep(pause)

    async def look(self) -> float:
        """Read the keys; if there are none, try a TokenReview. Returns the seconds until the next look."""
        await self._issuer.refresh()
        if self._issuer.is_known:
            return PAUSE_SECONDS if self._issuer.problem else REFRESH_SECONDS
        try:
            await self._review(_INVALID, "")
        except TokensUnavailable as error:
            log.error("%s", error)  # noqa: TRY400 - one line is enough
            return PAUSE_SECONDS
        return RECHECK_SECONDS

    def unready(self) -> str | None:
        """Why no token can be verified; None: tokens can."""
        if self._issuer.is_known or not self._no_reviews:
            return None
        return f"tokens cannot be verified: {self._issuer.problem}; {self._no_reviews}"

    async def verify(self, token: str, audience: str) -> Claims:
        """The claims of a valid token for this audience.

        Raises:
            TokenRefused: the token is not valid.
            TokensUnavailable: the API server gives neither its keys nor an answer to a TokenReview.
        """
        encoded = parse(token)
        self._check(encoded, audience)
        signed = await self._is_signed(encoded)
        if signed is None and not self._issuer.is_known:
            signed = await self._review(token, audience)
        if signed is None and self._issuer.problem:
            raise TokensUnavailable(f"the token names an unknown key or issuer: {self._issuer.problem}")
        if not signed:
            raise TokenRefused("the token is not signed by the API server, or it is of another issuer")
        return encoded.claims

    async def _is_signed(self, encoded: Encoded) -> bool | None:
        """Whether the API server signed the token; None if its keys do not tell."""
        if not self._issuer.is_known and self._no_reviews:
            await self._issuer.refresh()  # a request before the first look, or nothing works
        signed = self._issuer.signed(encoded)
        if signed is None and self._issuer.is_known:
            await self._issuer.refresh()  # the key or the issuer may be new
            signed = self._issuer.signed(encoded)
        return signed

    def _check(self, encoded: Encoded, audience: str) -> None:
        claims, now = encoded.claims, self._now().timestamp()
        if encoded.algorithm not in ALGORITHMS:
            raise TokenRefused("the algorithm of the token is not supported")
        if audience not in claims.audiences:
            raise TokenRefused("the token is for another audience")
        if not now - LEEWAY_SECONDS < claims.exp:
            raise TokenRefused("the token has expired")
        if claims.nbf is not None and not claims.nbf <= now + LEEWAY_SECONDS:
            raise TokenRefused("the token is not valid yet")

    async def _review(self, token: str, audience: str) -> bool:
        """Whether the API server knows the token. Raises TokensUnavailable."""
        try:
            async with asyncio.timeout(REVIEW_LIMIT_SECONDS):
                owner = await self._reviews.owner(token, audience)
        except TokensUnavailable:
            raise  # too many at a time; the API server does answer
        except (KubernetesError, TimeoutError) as error:
            said = str(error) or f"no answer to a TokenReview within {REVIEW_LIMIT_SECONDS:g} s"
            self._no_reviews = said
            raise TokensUnavailable(f"tokens cannot be verified: {self._issuer.problem}; {said}") from error
        self._no_reviews = ""
        return owner is not None
