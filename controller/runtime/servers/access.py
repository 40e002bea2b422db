# SPDX-License-Identifier: Apache-2.0
"""Access to the metrics: bearer tokens and permissions, checked by the API server.

The results are cached: a token for one minute, a permission for five minutes, a refusal for thirty seconds. Only the
digest of a token is kept. Anonymous requests are refused.
"""

import asyncio
import logging

from trainwright.api.kubernetes.authorization.v1 import SubjectAccessReview
from trainwright.api.rights import Rule
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.errors import KubernetesError
from trainwright.controller.runtime.tokens.reviews import Reviewed, TokenMemory, TokenReviewer, post_review

log = logging.getLogger(__name__)

TOKEN_SECONDS = 60.0
ALLOWED_SECONDS = 300.0
DENIED_SECONDS = 30.0
ATTEMPTS = 5
REMEMBERED = 1000


class BearerAccess:
    """Decides 200, 401 (no token or an unknown one), 403 (not allowed) or 500 (the API server gave no answer)."""

    RULES = (*TokenReviewer.RULES, Rule.on(SubjectAccessReview.RESOURCE, "create"))

    def __init__(self, client: Client) -> None:
        self._client = client
        self._tokens = TokenReviewer(
            client, accepted_seconds=TOKEN_SECONDS, refused_seconds=TOKEN_SECONDS, attempts=ATTEMPTS
        )
        self._decisions: TokenMemory[tuple[Reviewed, str, str], bool] = TokenMemory(
            REMEMBERED, time=lambda: asyncio.get_running_loop().time()
        )

    async def decide(self, authorization: str | None, path: str, verb: str = "get") -> int:
        """The HTTP status for a request with this Authorization header to a non-resource path (`/metrics`)."""
        kind, _, token = (authorization or "").partition(" ")
        if kind.lower() != "bearer" or not token.strip():
            return 401
        try:
            user = await self._tokens.owner(token.strip())
            if user is None:
                return 401
            return 200 if await self._allowed(user, path, verb) else 403
        except KubernetesError as error:
            log.error("%s %s: cannot check the access: %s", verb, path, error)  # noqa: TRY400 - one line is enough
            return 500

    async def _allowed(self, user: Reviewed, path: str, verb: str) -> bool:
        known = self._decisions.get((user, path, verb))
        if known is not None:
            return known
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
        path_of_reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        status = await post_review(self._client, path_of_reviews, review, attempts=ATTEMPTS)
        allowed = bool(status.get("allowed"))
        self._decisions.put((user, path, verb), allowed, ALLOWED_SECONDS if allowed else DENIED_SECONDS)
        return allowed
