# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
# ruff: noqa: RUF100, C901, E501, PLC0415, PLR0912, PLR0915, S105
# fmt: off
"""The structs of authentication.k8s.io/v1; import them from the package."""

from typing import ClassVar, Self

from msgspec import field

from trainwright.api.base import Object, Resource, Struct, empty
from trainwright.api.kubernetes.meta.v1 import models as meta_v1


class TokenReviewSpec(Struct, kw_only=True):
    """TokenReviewSpec of authentication.k8s.io/v1."""

    token: str
    audiences: list[str] | None = None

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.audiences is not None:
            n.audiences = n.audiences.copy()
        return n


class UserInfo(Struct, kw_only=True):
    """UserInfo of authentication.k8s.io/v1."""

    extra: dict[str, list[str]] | None = None
    groups: list[str] | None = None
    uid: str | None = None
    username: str | None = None

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.extra is not None:
            n.extra = {k: x.copy() for k, x in n.extra.items()}
        if n.groups is not None:
            n.groups = n.groups.copy()
        return n


class TokenReviewStatus(Struct, kw_only=True):
    """TokenReviewStatus of authentication.k8s.io/v1."""

    audiences: list[str] | None = None
    authenticated: bool | None = None
    error: str | None = None
    user: UserInfo | None = None

    @property
    def user_or_empty(self) -> UserInfo:
        return self.user or empty(UserInfo)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.audiences is not None:
            n.audiences = n.audiences.copy()
        if n.user is not None:
            n.user = n.user.deepcopy()
        return n


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

    @property
    def metadata_or_empty(self) -> meta_v1.ObjectMeta:
        return self.metadata or empty(meta_v1.ObjectMeta)

    @property
    def status_or_empty(self) -> TokenReviewStatus:
        return self.status or empty(TokenReviewStatus)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        n.spec = n.spec.deepcopy()
        if n.metadata is not None:
            n.metadata = n.metadata.deepcopy()
        if n.status is not None:
            n.status = n.status.deepcopy()
        return n
