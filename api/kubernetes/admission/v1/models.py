# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
# ruff: noqa: RUF100, C901, E501, PLC0415, PLR0912, PLR0915, S105
# fmt: off
"""The structs of admission.k8s.io/v1; import them from the package."""

from typing import Any

from msgspec import field

from trainwright.api.base import OrEmpty, Struct
from trainwright.api.kubernetes.authentication.v1 import models as authentication_v1
from trainwright.api.kubernetes.meta.v1 import models as meta_v1


class AdmissionRequest(Struct, kw_only=True):
    """What somebody wants to do, before it is done."""

    uid: str
    """Names this question; the answer repeats it."""
    kind: meta_v1.GroupVersionKind
    """Kind of the object as sent to the webhook."""
    resource: meta_v1.GroupVersionResource
    """Resource as sent to the webhook."""
    operation: str
    """CREATE, UPDATE, DELETE or CONNECT."""
    user_info: authentication_v1.UserInfo = field(name="userInfo")
    """Who asks."""
    sub_resource: str | None = field(name="subResource", default=None)
    """Subresource, such as status."""
    request_kind: meta_v1.GroupVersionKind | None = field(name="requestKind", default=None)
    """Kind of the original request."""
    request_resource: meta_v1.GroupVersionResource | None = field(name="requestResource", default=None)
    """Resource of the original request."""
    request_sub_resource: str | None = field(name="requestSubResource", default=None)
    """Subresource of the original request."""
    name: str | None = None
    """Name of the object; empty when the server is still to make one."""
    namespace: str | None = None
    """Namespace of the object, if it has one."""
    object: dict[str, Any] | None = None
    """The object as it would be."""
    old_object: dict[str, Any] | None = field(name="oldObject", default=None)
    """The object as it is."""
    dry_run: bool | None = field(name="dryRun", default=None)
    """True when nothing will be stored."""
    options: dict[str, Any] | None = None
    """Options of the request."""

    request_kind_or_empty = OrEmpty(meta_v1.GroupVersionKind)
    request_resource_or_empty = OrEmpty(meta_v1.GroupVersionResource)


class AdmissionResponse(Struct, kw_only=True):
    """What a webhook decides."""

    uid: str
    """The uid of the question."""
    allowed: bool
    """Whether it may be done."""
    status: meta_v1.Status | None = None
    """Why not."""
    patch: str | None = None
    """A JSON Patch for the object, in base64."""
    patch_type: str | None = field(name="patchType", default=None)
    """JSONPatch, whenever there is a patch."""
    audit_annotations: dict[str, str] | None = field(name="auditAnnotations", default=None)
    """Notes for the audit log."""
    warnings: list[str] | None = None
    """Warnings that the client shows."""

    status_or_empty = OrEmpty(meta_v1.Status)


class AdmissionReview(Struct, kw_only=True):
    """A question to a webhook, or its answer."""

    api_version: str | None = field(name="apiVersion", default=None)
    kind: str | None = None
    request: AdmissionRequest | None = None
    """The question."""
    response: AdmissionResponse | None = None
    """The answer."""

    request_or_empty = OrEmpty(AdmissionRequest)
    response_or_empty = OrEmpty(AdmissionResponse)
