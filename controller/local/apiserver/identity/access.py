# SPDX-License-Identifier: Apache-2.0
"""The four reviews of access, which say what is enforced.

https://kubernetes.io/docs/reference/kubernetes-api/authorization-resources/
"""

from typing import Any

from trainwright.api.objects import Document
from trainwright.api.validation import DocumentError
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.authorization import Attributes, Authorizer
from trainwright.controller.local.apiserver.identity.reviews import read_review
from trainwright.controller.local.apiserver.kinds.metadata import set_namespace
from trainwright.controller.local.apiserver.request.call import RequestInfo
from trainwright.controller.local.apiserver.request.info import ServerResponse, User
from trainwright.controller.local.apiserver.schema.errors import invalid
from trainwright.controller.local.apiserver.verbs.reads import shown

_PATH, _RESOURCE = "nonResourceAttributes", "resourceAttributes"


class AccessReviews:
    """Serves them.

    Args:
        authorizer: of the server.
    """

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    async def access(self, call: RequestInfo) -> ServerResponse:
        """Serve a SubjectAccessReview, SelfSubjectAccessReview or LocalSubjectAccessReview. Raises StatusError."""
        review, wanted = read_review(call)
        set_namespace(review["metadata"], call.namespace)
        found = _errors(call, review)
        if found:
            # kube-apiserver names no kind here.
            raise errors.invalid(call.group, "", "", found)
        decision = self._authorizer.decide(_attributes(call, review["spec"]))
        status: Document = {"allowed": decision.allowed}
        if decision.reason:
            status["reason"] = decision.reason
        review["status"] = status
        return shown(call, review, wanted, 201)

    async def rules(self, call: RequestInfo) -> ServerResponse:
        """Serve a SelfSubjectRulesReview. Raises StatusError."""
        review, wanted = read_review(call)
        namespace = review["spec"].get("namespace")
        if not namespace:
            raise errors.bad_request("no namespace on request")
        found = self._authorizer.rules(call.user, namespace)
        status: Document = {
            "resourceRules": [_without(rule, "nonResourceURLs") for rule in found.rules if rule.get("resources")],
            "nonResourceRules": [
                {"verbs": rule["verbs"], "nonResourceURLs": rule["nonResourceURLs"]}
                for rule in found.rules
                if rule.get("nonResourceURLs")
            ],
            "incomplete": False,
        }
        if found.problem:
            status["evaluationError"] = found.problem
        made = {
            "kind": call.kind,
            "apiVersion": call.resource.api_version,
            "metadata": {},
            "spec": {},
            "status": status,
        }
        return shown(call, made, wanted, 201)


def _without(rule: Document, field: str) -> Document:
    return {key: value for key, value in rule.items() if key != field}


def _attributes(call: RequestInfo, spec: Document) -> Attributes:
    """What a review asks about."""
    user = call.user
    if call.kind != "SelfSubjectAccessReview":
        extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
        user = User(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "", extra)
    path = spec.get(_PATH)
    if path is not None:
        return Attributes(user=user, verb=path.get("verb") or "", is_resource=False, path=path.get("path") or "")
    asked = spec[_RESOURCE]
    return Attributes(
        user=user,
        verb=asked.get("verb") or "",
        group=asked.get("group") or "",
        resource=asked.get("resource") or "",
        subresource=asked.get("subresource") or "",
        namespace=asked.get("namespace") or "",
        name=asked.get("name") or "",
    )


def _errors(call: RequestInfo, review: Document) -> list[DocumentError]:
    """In the order of kube-apiserver."""
    spec, meta = review["spec"], review["metadata"]
    path, resource = spec.get(_PATH), spec.get(_RESOURCE)
    found: list[DocumentError] = []
    if resource is not None and path is not None:
        why = "cannot be specified in combination with resourceAttributes"
        found.append(invalid(f"spec.{_PATH}", _go_fields(path), why))
    if resource is None and path is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        found.append(invalid(f"spec.{_RESOURCE}", None, why))
    if call.kind != "SelfSubjectAccessReview" and not spec.get("user") and not spec.get("groups"):
        found.append(invalid("spec.user", "", "at least one of user or group must be specified"))
    allowed = {"managedFields"} | ({"namespace"} if call.namespace else set())
    if any(value for field, value in meta.items() if field not in allowed):
        found.append(invalid("metadata", meta, f"must be empty{' except for namespace' if call.namespace else ''}"))
    if call.namespace:
        asked = (resource or {}).get("namespace") or ""
        if resource is not None and asked != call.namespace:
            found.append(invalid(f"spec.{_RESOURCE}.namespace", asked, "must match metadata.namespace"))
        if path is not None:
            found.append(invalid(f"spec.{_PATH}", _go_fields(path), "disallowed on this kind of request"))
    return found


def _go_fields(path: Document) -> dict[str, Any]:
    """Attributes of a path as kube-apiserver shows them: by the names of its own struct."""
    return {"Path": path.get("path") or "", "Verb": path.get("verb") or ""}
