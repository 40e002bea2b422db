# SPDX-License-Identifier: Apache-2.0
"""The four reviews of access. The answer is always yes: there is no authorization here, and RBAC objects are only kept.

https://kubernetes.io/docs/reference/kubernetes-api/authorization-resources/
"""

from typing import Any

from trainwright.api.objects import Document
from trainwright.api.validation import DocumentError
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.call import RequestInfo
from trainwright.controller.local.apiserver.fields import wrong
from trainwright.controller.local.apiserver.identity.reviews import read_review
from trainwright.controller.local.apiserver.metadata import set_namespace
from trainwright.controller.local.apiserver.reads import shown
from trainwright.controller.local.apiserver.requests import ServerResponse

_ALL = ["*"]
_PATH, _RESOURCE = "nonResourceAttributes", "resourceAttributes"


async def review_access(call: RequestInfo) -> ServerResponse:
    """Serve a SubjectAccessReview, SelfSubjectAccessReview or LocalSubjectAccessReview. Raises StatusError."""
    review, wanted = read_review(call)
    set_namespace(review["metadata"], call.namespace)
    found = _errors(call, review)
    if found:
        # kube-apiserver names no kind here.
        raise errors.invalid(call.group, "", "", found)
    review["status"] = {"allowed": True}
    return shown(call, review, wanted, 201)


async def review_rules(call: RequestInfo) -> ServerResponse:
    """Serve a SelfSubjectRulesReview. Raises StatusError."""
    review, wanted = read_review(call)
    if not review["spec"].get("namespace"):
        raise errors.bad_request("no namespace on request")
    made = {
        "kind": call.kind,
        "apiVersion": call.served.api_version,
        "metadata": {},
        "spec": {},
        "status": {
            "resourceRules": [{"verbs": _ALL, "apiGroups": _ALL, "resources": _ALL}],
            "nonResourceRules": [{"verbs": _ALL, "nonResourceURLs": _ALL}],
            "incomplete": False,
        },
    }
    return shown(call, made, wanted, 201)


def _errors(call: RequestInfo, review: Document) -> list[DocumentError]:
    """In the order of kube-apiserver."""
    spec, meta = review["spec"], review["metadata"]
    path, resource = spec.get(_PATH), spec.get(_RESOURCE)
    found: list[DocumentError] = []
    if resource is not None and path is not None:
        why = "cannot be specified in combination with resourceAttributes"
        found.append(wrong(f"spec.{_PATH}", _go_fields(path), why))
    if resource is None and path is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        found.append(wrong(f"spec.{_RESOURCE}", None, why))
    if call.kind != "SelfSubjectAccessReview" and not spec.get("user") and not spec.get("groups"):
        found.append(wrong("spec.user", "", "at least one of user or group must be specified"))
    allowed = {"managedFields"} | ({"namespace"} if call.namespace else set())
    if any(value for field, value in meta.items() if field not in allowed):
        found.append(wrong("metadata", meta, f"must be empty{' except for namespace' if call.namespace else ''}"))
    if call.namespace:
        asked = (resource or {}).get("namespace") or ""
        if resource is not None and asked != call.namespace:
            found.append(wrong(f"spec.{_RESOURCE}.namespace", asked, "must match metadata.namespace"))
        if path is not None:
            found.append(wrong(f"spec.{_PATH}", _go_fields(path), "disallowed on this kind of request"))
    return found


def _go_fields(path: Document) -> dict[str, Any]:
    """Attributes of a path as kube-apiserver shows them: by the names of its own struct."""
    return {"Path": path.get("path") or "", "Verb": path.get("verb") or ""}
