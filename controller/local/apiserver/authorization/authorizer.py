# SPDX-License-Identifier: Apache-2.0
"""The contract of authorization, and the one that allows everything."""

from typing import NamedTuple, Protocol

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.authorization.attributes import Attributes
from trainwright.controller.local.apiserver.request.info import ANONYMOUS, AUTHENTICATED, User

MASTERS = "system:masters"
"""The group whose members may do everything, whatever the roles say."""
PUBLIC = ("/healthz", "/livez", "/readyz", "/version")
"""What requests without credentials may ask, as in kube-apiserver."""
EVERYTHING: tuple[Document, ...] = (
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
)
"""All rights there are, as rules."""


class AccessDecision(NamedTuple):
    """Whether something is allowed, and what SubjectAccessReviews say of it."""

    allowed: bool
    reason: str = ""


class UserRules(NamedTuple):
    """The rights of a user in a namespace."""

    rules: list[Document]
    problem: str = ""
    """Why some may be missing."""


class Authorizer(Protocol):
    """Tells who may do what."""

    def decide(self, wanted: Attributes) -> AccessDecision:
        """Whether a user may do something."""
        ...

    def rules(self, user: User, namespace: str) -> UserRules:
        """What a user may do in a namespace, and in the whole cluster."""
        ...


class AllowAuthenticated:
    """Users with credentials may do everything, all others what is public."""

    def decide(self, wanted: Attributes) -> AccessDecision:
        """See Authorizer."""
        if _has_credentials(wanted.user):
            return AccessDecision(True)
        return AccessDecision(not wanted.is_resource and wanted.path.rstrip("/") in PUBLIC)

    def rules(self, user: User, namespace: str) -> UserRules:  # noqa: ARG002 - the same everywhere
        """See Authorizer."""
        if _has_credentials(user):
            return UserRules(list(EVERYTHING))
        return UserRules([{"verbs": ["*"], "nonResourceURLs": list(PUBLIC)}])


def _has_credentials(user: User) -> bool:
    return user.name != ANONYMOUS.name or not {MASTERS, AUTHENTICATED}.isdisjoint(user.groups)
