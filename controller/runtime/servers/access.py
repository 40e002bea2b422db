# SPDX-License-Identifier: Apache-2.0
"""Access to the metrics: bearer tokens and permissions, checked by the API server.

The results are cached: a token for one minute, a permission for five minutes, a refusal for thirty seconds. Only the
digest of a token is kept. Anonymous requests are refused.
"""

import asyncio
import hashlib
import logging
import random
from dataclasses import dataclass
from typing import Any

import msgspec

from trainwright.api.kubernetes.authentication.v1 import TokenReview
from trainwright.api.kubernetes.authorization.v1 import SubjectAccessReview
from trainwright.api.rights import Rule
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.errors import KubernetesError

log = logging.getLogger(__name__)

TOKEN_SECONDS = 60.0
ALLOWED_SECONDS = 300.0
DENIED_SECONDS = 30.0
RETRY_SECONDS = 0.5
RETRY_FACTOR = 1.5
ATTEMPTS = 5
REMEMBERED = 1000

_HEADERS = {"Accept": "application/json", "Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class _User:
    name: str
    uid: str
    groups: tuple[str, ...]


class Access:
    """Decides 200, 401 (no token or an unknown one), 403 (not allowed) or 500 (the API server gave no answer)."""

    RULES = (Rule.on(TokenReview.RESOURCE, "create"), Rule.on(SubjectAccessReview.RESOURCE, "create"))

    def __init__(self, client: Client) -> None:
        self._client = client
        self._users: dict[bytes, tuple[float, _User | None]] = {}
        self._decisions: dict[tuple[_User, str, str], tuple[float, bool]] = {}

    async def decide(self, authorization: str | None, path: str, verb: str = "get") -> int:
        """The HTTP status for a request with this Authorization header to a non-resource path (`/metrics`)."""
        kind, _, token = (authorization or "").partition(" ")
        if kind.lower() != "bearer" or not token.strip():
            return 401
        try:
            user = await self._user(token.strip())
            if user is None:
                return 401
            return 200 if await self._allowed(user, path, verb) else 403
        except KubernetesError as error:
            log.error("%s %s: cannot check the access: %s", verb, path, error)  # noqa: TRY400 - one line is enough
            return 500

    async def _user(self, token: str) -> _User | None:
        now = asyncio.get_running_loop().time()
        digest = hashlib.sha256(token.encode()).digest()
        known = self._users.get(digest)
        if known is not None and known[0] > now:
            return known[1]
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status = await self._ask("/apis/authentication.k8s.io/v1/tokenreviews", review)
        user = None
        if status.get("authenticated"):
            found = status.get("user") or {}
            user = _User(found.get("username", ""), found.get("uid", ""), tuple(found.get("groups") or ()))
            if user.name == "system:anonymous":
                user = None
        _remember(self._users, digest, (now + TOKEN_SECONDS, user))
        return user

    async def _allowed(self, user: _User, path: str, verb: str) -> bool:
        now = asyncio.get_running_loop().time()
        known = self._decisions.get((user, path, verb))
        if known is not None and known[0] > now:
            return known[1]
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user.name,
                "uid": user.uid,
                "groups": list(user.groups),
                "nonResourceAttributes": {"path": path, "verb": verb},
            },
        }
        status = await self._ask("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        allowed = bool(status.get("allowed"))
        _remember(
            self._decisions, (user, path, verb), (now + (ALLOWED_SECONDS if allowed else DENIED_SECONDS), allowed)
        )
        return allowed

    async def _ask(self, path: str, review: dict[str, Any]) -> dict[str, Any]:
        body, wait, left = msgspec.json.encode(review), RETRY_SECONDS, ATTEMPTS
        while True:
            left -= 1
            try:
                response = await self._client.send(Request("POST", path, {}, dict(_HEADERS), body))
            except KubernetesError:
                if not left:
                    raise
                await asyncio.sleep(wait * (1 + 0.2 * random.random()))  # noqa: S311 - jitter
                wait *= RETRY_FACTOR
            else:
                status: dict[str, Any] = msgspec.json.decode(response.body).get("status") or {}
                return status


def _remember(memory: dict[Any, Any], key: object, value: object) -> None:
    if len(memory) >= REMEMBERED:
        memory.clear()
    memory[key] = value
