# SPDX-License-Identifier: Apache-2.0
"""Who may ask what, the reviews of access, and their place in discovery."""

import pytest

from tests.unit.local.identity.conftest import AUTHENTICATION, AUTHORIZATION, Asker, Document
from trainwright.controller.local.apiserver.request.info import ServerRequest

GET_PODS = {"verb": "get", "resource": "pods", "namespace": "default"}


async def test_without_credentials_only_health_and_version_answer(ask: Asker) -> None:
    for path in ("/healthz", "/livez", "/readyz", "/version"):
        answer = await ask.api.server.handle(ServerRequest(method="GET", path=path))
        assert answer.status == 200
    status, answer_ = await ask("GET", "/api", token="")
    assert (status, answer_["message"]) == (403, 'forbidden: User "system:anonymous" cannot get path "/api"')
    status, answer_ = await ask("GET", "/api/v1/namespaces/default/pods/p/log", token="")
    assert status == 403
    assert answer_["message"] == (
        'pods "p" is forbidden: User "system:anonymous" cannot get resource "pods/log" in API group "" in the '
        'namespace "default"'
    )
    status, answer_ = await ask("GET", "/api/v1/pods?watch=true", token="")
    assert answer_["message"].endswith('cannot watch resource "pods" in API group "" at the cluster scope')


async def test_a_wrong_token_is_refused_everywhere(ask: Asker) -> None:
    for path in ("/version", "/api/v1/pods"):
        status, answer = await ask("GET", path, token="wrong")
        assert (status, answer["reason"], answer["message"]) == (401, "Unauthorized", "Unauthorized")


async def test_the_administrator_is_who_they_are(ask: Asker) -> None:
    _, made = await ask("POST", f"/apis/{AUTHENTICATION}/selfsubjectreviews", {})
    user = {"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]}
    assert made["status"] == {"userInfo": user}
    assert made["metadata"]["creationTimestamp"] == "2030-01-01T00:00:00Z"


@pytest.mark.parametrize("kind", ["SubjectAccessReview", "SelfSubjectAccessReview"])
async def test_access_is_allowed(ask: Asker, kind: str) -> None:
    spec: Document = {"resourceAttributes": GET_PODS}
    if kind == "SubjectAccessReview":
        spec["user"] = "somebody"
    status, made = await ask("POST", f"/apis/{AUTHORIZATION}/{kind.lower()}s", {"spec": spec})
    assert (status, made["kind"], made["status"]) == (201, kind, {"allowed": True})


@pytest.mark.parametrize(
    ("path", "body", "messages"),
    [
        (
            "subjectaccessreviews",
            {"spec": {}},
            [
                (
                    "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or "
                    "resourceAttributes must be specified"
                ),
                'spec.user: Invalid value: "": at least one of user or group must be specified',
            ],
        ),
        (
            "selfsubjectaccessreviews",
            {"spec": {"resourceAttributes": GET_PODS, "nonResourceAttributes": {"path": "/x", "verb": "get"}}},
            [
                (
                    'spec.nonResourceAttributes: Invalid value: {"path":"/x","verb":"get"}: cannot be specified in '
                    "combination with resourceAttributes"
                )
            ],
        ),
        (
            "namespaces/kube-system/localsubjectaccessreviews",
            {"spec": {"user": "u", "resourceAttributes": GET_PODS}},
            ['spec.resourceAttributes.namespace: Invalid value: "default": must match metadata.namespace'],
        ),
    ],
)
async def test_errors_of_reviews(ask: Asker, path: str, body: Document, messages: list[str]) -> None:
    status, answer = await ask("POST", f"/apis/{AUTHORIZATION}/{path}", body)
    together = messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
    assert (status, answer["message"]) == (422, f'.authorization.k8s.io "" is invalid: {together}')


async def test_rules_are_everything(ask: Asker) -> None:
    path = f"/apis/{AUTHORIZATION}/selfsubjectrulesreviews"
    _, made = await ask("POST", path, {"spec": {"namespace": "default"}})
    assert made["status"]["resourceRules"] == [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    assert (await ask("POST", path, {"spec": {}}))[1]["message"] == "no namespace on request"


async def test_reviews_can_be_created_only(ask: Asker) -> None:
    path = f"/apis/{AUTHENTICATION}/tokenreviews"
    assert (await ask("GET", path))[0] == 405
    assert (await ask("GET", f"{path}/x"))[0] == 404
    _, listed = await ask("GET", f"/apis/{AUTHENTICATION}")
    names = {one["name"]: one["verbs"] for one in listed["resources"]}
    assert names == {"selfsubjectreviews": ["create"], "tokenreviews": ["create"]}
