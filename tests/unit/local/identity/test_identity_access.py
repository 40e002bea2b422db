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
    assert (await ask("GET", "/api", token=""))[0] == 403


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


async def test_rules_are_everything(ask: Asker) -> None:
    path = f"/apis/{AUTHORIZATION}/selfsubjectrulesreviews"
    _, made = await ask("POST", path, {"spec": {"namespace": "default"}})
    assert made["status"]["resourceRules"] == [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    assert (await ask("POST", path, {"spec": {}}))[1]["message"] == "no namespace on request"
