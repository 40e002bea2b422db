# SPDX-License-Identifier: Apache-2.0
"""The keys and the names of the issuer of tokens of service accounts, as the API server publishes them.

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

from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.client.config import ClusterConfig
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.errors import ApiError, KubernetesError, TokenRefused
from trainwright.controller.runtime.tokens.encoded import Encoded, parse
from trainwright.controller.runtime.tokens.keys import PublicKey, read_keys

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
