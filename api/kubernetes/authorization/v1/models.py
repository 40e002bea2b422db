# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
# ruff: noqa: RUF100, C901, E501, PLC0415, PLR0912, PLR0915, S105
# fmt: off
"""The structs of authorization.k8s.io/v1; import them from the package."""

from typing import ClassVar, Self

from msgspec import field

from trainwright.api.base import Object, Resource, Struct, empty
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

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.requirements is not None:
            n.requirements = [x.deepcopy() for x in n.requirements]
        return n


class LabelSelectorAttributes(Struct, kw_only=True):
    """LabelSelectorAttributes of authorization.k8s.io/v1."""

    raw_selector: str | None = field(name="rawSelector", default=None)
    requirements: list[meta_v1.LabelSelectorRequirement] | None = None

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.requirements is not None:
            n.requirements = [x.deepcopy() for x in n.requirements]
        return n


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

    @property
    def field_selector_or_empty(self) -> FieldSelectorAttributes:
        return self.field_selector or empty(FieldSelectorAttributes)

    @property
    def label_selector_or_empty(self) -> LabelSelectorAttributes:
        return self.label_selector or empty(LabelSelectorAttributes)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.field_selector is not None:
            n.field_selector = n.field_selector.deepcopy()
        if n.label_selector is not None:
            n.label_selector = n.label_selector.deepcopy()
        return n


class SubjectAccessReviewSpec(Struct, kw_only=True):
    """SubjectAccessReviewSpec of authorization.k8s.io/v1."""

    extra: dict[str, list[str]] | None = None
    groups: list[str] | None = None
    non_resource_attributes: NonResourceAttributes | None = field(name="nonResourceAttributes", default=None)
    resource_attributes: ResourceAttributes | None = field(name="resourceAttributes", default=None)
    uid: str | None = None
    user: str | None = None

    @property
    def non_resource_attributes_or_empty(self) -> NonResourceAttributes:
        return self.non_resource_attributes or empty(NonResourceAttributes)

    @property
    def resource_attributes_or_empty(self) -> ResourceAttributes:
        return self.resource_attributes or empty(ResourceAttributes)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.extra is not None:
            n.extra = {k: x.copy() for k, x in n.extra.items()}
        if n.groups is not None:
            n.groups = n.groups.copy()
        if n.non_resource_attributes is not None:
            n.non_resource_attributes = n.non_resource_attributes.deepcopy()
        if n.resource_attributes is not None:
            n.resource_attributes = n.resource_attributes.deepcopy()
        return n


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

    @property
    def metadata_or_empty(self) -> meta_v1.ObjectMeta:
        return self.metadata or empty(meta_v1.ObjectMeta)

    @property
    def status_or_empty(self) -> SubjectAccessReviewStatus:
        return self.status or empty(SubjectAccessReviewStatus)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        n.spec = n.spec.deepcopy()
        if n.metadata is not None:
            n.metadata = n.metadata.deepcopy()
        if n.status is not None:
            n.status = n.status.deepcopy()
        return n
