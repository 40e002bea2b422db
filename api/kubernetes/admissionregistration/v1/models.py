# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
# ruff: noqa: RUF100, C901, E501, PLC0415, PLR0912, PLR0915, S105
# fmt: off
"""The structs of admissionregistration.k8s.io/v1; import them from the package."""

from collections.abc import Mapping
from typing import ClassVar, Self

from msgspec import field

from trainwright.api.base import Merge, Object, Resource, Struct, empty
from trainwright.api.kubernetes.meta.v1 import models as meta_v1


class MatchCondition(Struct, kw_only=True):
    """MatchCondition of admissionregistration.k8s.io/v1."""

    expression: str
    name: str


class RuleWithOperations(Struct, kw_only=True):
    """RuleWithOperations of admissionregistration.k8s.io/v1."""

    api_groups: list[str] | None = field(name="apiGroups", default=None)
    api_versions: list[str] | None = field(name="apiVersions", default=None)
    operations: list[str] | None = None
    resources: list[str] | None = None
    scope: str | None = None

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.api_groups is not None:
            n.api_groups = n.api_groups.copy()
        if n.api_versions is not None:
            n.api_versions = n.api_versions.copy()
        if n.operations is not None:
            n.operations = n.operations.copy()
        if n.resources is not None:
            n.resources = n.resources.copy()
        return n


class ServiceReference(Struct, kw_only=True):
    """ServiceReference of admissionregistration.k8s.io/v1."""

    name: str
    namespace: str
    path: str | None = None
    port: int | None = None


class WebhookClientConfig(Struct, kw_only=True):
    """WebhookClientConfig of admissionregistration.k8s.io/v1."""

    ca_bundle: str | None = field(name="caBundle", default=None)
    service: ServiceReference | None = None
    url: str | None = None

    @property
    def service_or_empty(self) -> ServiceReference:
        return self.service or empty(ServiceReference)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.service is not None:
            n.service = n.service.deepcopy()
        return n


class MutatingWebhook(Struct, kw_only=True):
    """MutatingWebhook of admissionregistration.k8s.io/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "matchConditions": Merge("map", keys=("name",), patch=("merge",), patch_key="name"),
        "namespaceSelector": Merge("atomic"),
        "objectSelector": Merge("atomic"),
    }

    admission_review_versions: list[str] = field(name="admissionReviewVersions")
    client_config: WebhookClientConfig = field(name="clientConfig")
    name: str
    side_effects: str = field(name="sideEffects")
    failure_policy: str | None = field(name="failurePolicy", default=None)
    match_conditions: list[MatchCondition] | None = field(name="matchConditions", default=None)
    match_policy: str | None = field(name="matchPolicy", default=None)
    namespace_selector: meta_v1.LabelSelector | None = field(name="namespaceSelector", default=None)
    object_selector: meta_v1.LabelSelector | None = field(name="objectSelector", default=None)
    reinvocation_policy: str | None = field(name="reinvocationPolicy", default=None)
    rules: list[RuleWithOperations] | None = None
    timeout_seconds: int | None = field(name="timeoutSeconds", default=None)

    @property
    def namespace_selector_or_empty(self) -> meta_v1.LabelSelector:
        return self.namespace_selector or empty(meta_v1.LabelSelector)

    @property
    def object_selector_or_empty(self) -> meta_v1.LabelSelector:
        return self.object_selector or empty(meta_v1.LabelSelector)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        n.admission_review_versions = n.admission_review_versions.copy()
        n.client_config = n.client_config.deepcopy()
        if n.match_conditions is not None:
            n.match_conditions = [x.deepcopy() for x in n.match_conditions]
        if n.namespace_selector is not None:
            n.namespace_selector = n.namespace_selector.deepcopy()
        if n.object_selector is not None:
            n.object_selector = n.object_selector.deepcopy()
        if n.rules is not None:
            n.rules = [x.deepcopy() for x in n.rules]
        return n


class MutatingWebhookConfiguration(Object, kw_only=True):
    """MutatingWebhookConfiguration of admissionregistration.k8s.io/v1."""

    RESOURCE: ClassVar[Resource] = Resource(
        group="admissionregistration.k8s.io",
        version="v1",
        kind="MutatingWebhookConfiguration",
        plural="mutatingwebhookconfigurations",
        namespaced=False,
    )

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "webhooks": Merge("map", keys=("name",), patch=("merge",), patch_key="name"),
    }

    api_version: str | None = field(name="apiVersion", default=None)
    kind: str | None = None
    metadata: meta_v1.ObjectMeta | None = None
    webhooks: list[MutatingWebhook] | None = None

    @property
    def metadata_or_empty(self) -> meta_v1.ObjectMeta:
        return self.metadata or empty(meta_v1.ObjectMeta)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.metadata is not None:
            n.metadata = n.metadata.deepcopy()
        if n.webhooks is not None:
            n.webhooks = [x.deepcopy() for x in n.webhooks]
        return n


class ValidatingWebhook(Struct, kw_only=True):
    """ValidatingWebhook of admissionregistration.k8s.io/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "matchConditions": Merge("map", keys=("name",), patch=("merge",), patch_key="name"),
        "namespaceSelector": Merge("atomic"),
        "objectSelector": Merge("atomic"),
    }

    admission_review_versions: list[str] = field(name="admissionReviewVersions")
    client_config: WebhookClientConfig = field(name="clientConfig")
    name: str
    side_effects: str = field(name="sideEffects")
    failure_policy: str | None = field(name="failurePolicy", default=None)
    match_conditions: list[MatchCondition] | None = field(name="matchConditions", default=None)
    match_policy: str | None = field(name="matchPolicy", default=None)
    namespace_selector: meta_v1.LabelSelector | None = field(name="namespaceSelector", default=None)
    object_selector: meta_v1.LabelSelector | None = field(name="objectSelector", default=None)
    rules: list[RuleWithOperations] | None = None
    timeout_seconds: int | None = field(name="timeoutSeconds", default=None)

    @property
    def namespace_selector_or_empty(self) -> meta_v1.LabelSelector:
        return self.namespace_selector or empty(meta_v1.LabelSelector)

    @property
    def object_selector_or_empty(self) -> meta_v1.LabelSelector:
        return self.object_selector or empty(meta_v1.LabelSelector)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        n.admission_review_versions = n.admission_review_versions.copy()
        n.client_config = n.client_config.deepcopy()
        if n.match_conditions is not None:
            n.match_conditions = [x.deepcopy() for x in n.match_conditions]
        if n.namespace_selector is not None:
            n.namespace_selector = n.namespace_selector.deepcopy()
        if n.object_selector is not None:
            n.object_selector = n.object_selector.deepcopy()
        if n.rules is not None:
            n.rules = [x.deepcopy() for x in n.rules]
        return n


class ValidatingWebhookConfiguration(Object, kw_only=True):
    """ValidatingWebhookConfiguration of admissionregistration.k8s.io/v1."""

    RESOURCE: ClassVar[Resource] = Resource(
        group="admissionregistration.k8s.io",
        version="v1",
        kind="ValidatingWebhookConfiguration",
        plural="validatingwebhookconfigurations",
        namespaced=False,
    )

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "webhooks": Merge("map", keys=("name",), patch=("merge",), patch_key="name"),
    }

    api_version: str | None = field(name="apiVersion", default=None)
    kind: str | None = None
    metadata: meta_v1.ObjectMeta | None = None
    webhooks: list[ValidatingWebhook] | None = None

    @property
    def metadata_or_empty(self) -> meta_v1.ObjectMeta:
        return self.metadata or empty(meta_v1.ObjectMeta)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.metadata is not None:
            n.metadata = n.metadata.deepcopy()
        if n.webhooks is not None:
            n.webhooks = [x.deepcopy() for x in n.webhooks]
        return n
