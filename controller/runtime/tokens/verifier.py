# SPDX-License-Identifier: Apache-2.0
"""Verifies bearer tokens of service accounts that are meant for a server of ours.

Tokens are verified in this process with the API server's public keys. A cluster that does not publish its keys is
asked by TokenReview instead, at most twenty times a second. All claims are checked before the signature, so a token
that is not for this server costs no request.

The keys are read from the API server itself, never from the `jwks_uri` of its discovery document, which may name an
address that the cluster does not reach, or another host. By default every service account may read both pages.
https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/#service-account-issuer-discovery

The issuer of a token must be the one of the discovery document, or the one of the token of this process. The two differ
while an administrator changes the issuer of a cluster.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from trainwright.api.times import Now, wall_clock
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.client.config import ClusterConfig
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.errors import ApiError, KubernetesError, TokenRefused, TokensUnavailable
from trainwright.controller.runtime.tokens.reviews import TokenReviewer
from trainwright.controller.runtime.tokens.signatures import ALGORITHMS, Claims, Encoded, PublicKey, parse, read_keys

log = logging.getLogger(__name__)

PAUSE_SECONDS = 10.0
"""Least time between two reads of the keys."""
LIMIT_SECONDS = 5.0
"""Longest time that a read takes."""

KEYS, DISCOVERY = "/openid/v1/jwks", "/.well-known/openid-configuration"
_KEY_SET, _JSON = "application/jwk-set+json", "application/json"
_REFUSED = range(400, 429)


class _Discovery(msgspec.Struct):
    issuer: str


def own_token(config: ClusterConfig) -> str:
    """The token with which this process authenticates; empty if it has none or it cannot be read."""
    if config.token_file:
        try:
            return Path(config.token_file).read_text().strip()
        except (OSError, UnicodeDecodeError):
            return ""
    return config.token or ""


class Issuer:
    """What is known of the issuer. `refresh` reads it, all other methods work on memory."""

    def __init__(self, client: Client, own: Callable[[], str], *, time: Callable[[], float]) -> None:
        """`own` returns the token of this process, empty if it has none. `time`: in seconds."""
        self._client = client
        self._own = own
        self._time = time
        self._lock = asyncio.Lock()
        self._read_at = float("-inf")
        self._names: frozenset[str] = frozenset()
        self._keys: list[PublicKey] = []
        self.problem = f"{KEYS} has not been read yet"
        """Why the last read failed; empty after a read that did not."""

    @property
    def is_known(self) -> bool:
        """Whether there are keys to verify tokens with."""
        return bool(self._keys)

    def signed(self, token: Encoded) -> bool | None:
        """Whether the issuer signed a token; None if the token names an unknown issuer or key."""
        keys = [key for key in self._keys if not token.key_id or key.id == token.key_id]
        if token.claims.iss not in self._names or not keys:
            return None
        return any(key.verifies(token) for key in keys)

    async def refresh(self) -> None:
        """Read keys and names, unless they were read within the last ten seconds. Never raises; see `problem`.

        If the API server does not answer, what was known stays known: without an API server no key is withdrawn. If it
        refuses the page or does not have it, nothing is known any longer.
        """
        async with self._lock:
            if self._time() - self._read_at < PAUSE_SECONDS:
                return
            self._read_at = self._time()
            try:
                async with asyncio.timeout(LIMIT_SECONDS):
                    keys, names = read_keys(await self._get(KEYS, _KEY_SET)), await self._read_names()
            except TimeoutError:
                self._failed(f"GET {KEYS}: no answer within {LIMIT_SECONDS:g} s")
            except ApiError as error:
                self._failed(str(error), forget=error.status in _REFUSED)
            except KubernetesError as error:
                self._failed(str(error))
            except ValueError as error:
                self._failed(f"{KEYS}: {error}", forget=True)
            else:
                self._learned(keys, names)

    def _learned(self, keys: list[PublicKey], names: frozenset[str]) -> None:
        if not keys or not names:
            what = "no usable key" if not keys else f"no issuer in {DISCOVERY} or in the token of this process"
            self._failed(f"the API server publishes {what}", forget=True)
            return
        if {key.id for key in keys} != {key.id for key in self._keys} or names != self._names:
            log.info("tokens are verified with %d key(s) of the issuer %s", len(keys), ", ".join(sorted(names)))
        self._keys, self._names, self.problem = keys, names, ""

    def _failed(self, problem: str, *, forget: bool = False) -> None:
        if problem != self.problem:
            log.warning("cannot read the keys of the API server's tokens: %s", problem)
        self.problem = problem
        if forget:
            self._keys, self._names = [], frozenset()

    async def _read_names(self) -> frozenset[str]:
        names = set()
        try:
            claims = parse(self._own()).claims
        except TokenRefused as error:
            log.debug("the token of this process names no issuer: %s", error)
        else:
            if claims.kubernetes.namespace:  # else it is of another provider of identities
                names.add(claims.iss)
        try:
            names.add(msgspec.json.decode(await self._get(DISCOVERY, _JSON), type=_Discovery).issuer)
        except (ApiError, msgspec.MsgspecError) as error:
            if not names:
                raise
            log.debug("%s: %s", DISCOVERY, error)
        return frozenset(names - {""})

    async def _get(self, path: str, media: str) -> bytes:
        return (await self._client.send(Request("GET", path, headers={"Accept": media}))).body


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
            own: returns the token of this process, whose issuer is accepted; see `own_token`.
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
