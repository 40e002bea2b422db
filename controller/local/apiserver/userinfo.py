# SPDX-License-Identifier: Apache-2.0
"""Users in wire form."""

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.requests import User


def user_info(user: User) -> Document:
    """A user as `UserInfo` of authentication.k8s.io/v1."""
    made: Document = {"username": user.name}
    if user.uid:
        made["uid"] = user.uid
    made["groups"] = list(user.groups)
    if user.extra:
        made["extra"] = {key: list(values) for key, values in user.extra.items()}
    return made
