# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
# ruff: noqa: RUF100, C901, E501, PLC0415, PLR0912, PLR0915, S105
# fmt: off
"""The structs of authentication.k8s.io/v1; import them from the package."""

from typing import ClassVar

from msgspec import field

from trainwright.api.base import Object, OrEmpty, Resource, Struct
from trainwright.api.kubernetes.meta.v1 import models as meta_v1


class TokenReviewSpec(Struct, kw_only=True):
    """TokenReviewSpec of authentication.k8s.io/v1."""

    token: str
    audiences: list[str] | None = None


class UserInfo(Struct, kw_only=True):
    """UserInfo of authentication.k8s.io/v1."""

    extra: dict[str, list[str]] | None = None
    groups: list[str] | None = None
    uid: str | None = None
    username: str | None = None


class TokenReviewStatus(Struct, kw_only=True):
    """TokenReviewStatus of authentication.k8s.io/v1."""

    audiences: list[str] | None = None
    authenticated: bool | None = None
    error: str | None = None
    user: UserInfo | None = None

    user_or_empty = OrEmpty(UserInfo)


class TokenReview(Object, kw_only=True):
    """TokenReview of authentication.k8s.io/v1."""

    RESOURCE: ClassVar[Resource] = Resource(
        group="authentication.k8s.io",
        version="v1",
        kind="TokenReview",
        plural="tokenreviews",
        namespaced=False,
    )

    spec: TokenReviewSpec
    api_version: str | None = field(name="apiVersion", default=None)
    kind: str | None = None
    metadata: meta_v1.ObjectMeta | None = None
    status: TokenReviewStatus | None = None

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)
    status_or_empty = OrEmpty(TokenReviewStatus)
