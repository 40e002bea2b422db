# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
# ruff: noqa: RUF100, C901, E501, PLC0415, PLR0912, PLR0915, S105
# fmt: off
"""The structs of admissionregistration.k8s.io/v1; import them from the package."""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import field

from trainwright.api.base import Merge, Object, OrEmpty, Resource, Struct
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

    service_or_empty = OrEmpty(ServiceReference)


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

    namespace_selector_or_empty = OrEmpty(meta_v1.LabelSelector)
    object_selector_or_empty = OrEmpty(meta_v1.LabelSelector)


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

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)


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

    namespace_selector_or_empty = OrEmpty(meta_v1.LabelSelector)
    object_selector_or_empty = OrEmpty(meta_v1.LabelSelector)


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

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)
