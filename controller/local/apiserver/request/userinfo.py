# SPDX-License-Identifier: Apache-2.0
"""Users: their groups, and their wire form."""

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.request.info import User

AUTHENTICATED = "system:authenticated"
"""The group of all users with credentials."""
ACCOUNT_PREFIX = "system:serviceaccount:"
"""Of the user names of service accounts."""


def account_groups(namespace: str) -> tuple[str, ...]:
    """The groups of all service accounts of a namespace."""
    return "system:serviceaccounts", f"system:serviceaccounts:{namespace}"


def user_info(user: User) -> Document:
    """A user as `UserInfo` of authentication.k8s.io/v1."""
    made: Document = {"username": user.name}
    if user.uid:
        made["uid"] = user.uid
    made["groups"] = list(user.groups)
    if user.extra:
        made["extra"] = {key: list(values) for key, values in user.extra.items()}
    return made
