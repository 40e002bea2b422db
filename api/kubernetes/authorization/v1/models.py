# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
# ruff: noqa: RUF100, C901, E501, PLC0415, PLR0912, PLR0915, S105
# fmt: off
"""The structs of authorization.k8s.io/v1; import them from the package."""

from typing import ClassVar

from msgspec import field

from trainwright.api.base import Object, OrEmpty, Resource, Struct
from trainwright.api.kubernetes.meta.v1 import models as meta_v1


class NonResourceAttributes(Struct, kw_only=True):
    """NonResourceAttributes of authorization.k8s.io/v1."""

    path: str | None = None
    verb: str | None = None


class SubjectAccessReviewStatus(Struct, kw_only=True):
    """SubjectAccessReviewStatus of authorization.k8s.io/v1."""

    allowed: bool
    denied: bool | None = None
    evaluation_error: str | None = field(name="evaluationError", default=None)
    reason: str | None = None


class FieldSelectorAttributes(Struct, kw_only=True):
    """FieldSelectorAttributes of authorization.k8s.io/v1."""

    raw_selector: str | None = field(name="rawSelector", default=None)
    requirements: list[meta_v1.FieldSelectorRequirement] | None = None


class LabelSelectorAttributes(Struct, kw_only=True):
    """LabelSelectorAttributes of authorization.k8s.io/v1."""

    raw_selector: str | None = field(name="rawSelector", default=None)
    requirements: list[meta_v1.LabelSelectorRequirement] | None = None


class ResourceAttributes(Struct, kw_only=True):
    """ResourceAttributes of authorization.k8s.io/v1."""

    field_selector: FieldSelectorAttributes | None = field(name="fieldSelector", default=None)
    group: str | None = None
    label_selector: LabelSelectorAttributes | None = field(name="labelSelector", default=None)
    name: str | None = None
    namespace: str | None = None
    resource: str | None = None
    subresource: str | None = None
    verb: str | None = None
    version: str | None = None

    field_selector_or_empty = OrEmpty(FieldSelectorAttributes)
    label_selector_or_empty = OrEmpty(LabelSelectorAttributes)


class SubjectAccessReviewSpec(Struct, kw_only=True):
    """SubjectAccessReviewSpec of authorization.k8s.io/v1."""

    extra: dict[str, list[str]] | None = None
    groups: list[str] | None = None
    non_resource_attributes: NonResourceAttributes | None = field(name="nonResourceAttributes", default=None)
    resource_attributes: ResourceAttributes | None = field(name="resourceAttributes", default=None)
    uid: str | None = None
    user: str | None = None

    non_resource_attributes_or_empty = OrEmpty(NonResourceAttributes)
    resource_attributes_or_empty = OrEmpty(ResourceAttributes)


class SubjectAccessReview(Object, kw_only=True):
    """SubjectAccessReview of authorization.k8s.io/v1."""

    RESOURCE: ClassVar[Resource] = Resource(
        group="authorization.k8s.io",
        version="v1",
        kind="SubjectAccessReview",
        plural="subjectaccessreviews",
        namespaced=False,
    )

    spec: SubjectAccessReviewSpec
    api_version: str | None = field(name="apiVersion", default=None)
    kind: str | None = None
    metadata: meta_v1.ObjectMeta | None = None
    status: SubjectAccessReviewStatus | None = None

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)
    status_or_empty = OrEmpty(SubjectAccessReviewStatus)
