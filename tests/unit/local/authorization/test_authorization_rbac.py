# SPDX-License-Identifier: Apache-2.0
"""Authorization by roles and bindings, over whole requests; beside what tests/scenarios/8.8-rbac.yaml has."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.local.identity.conftest import Asker
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.request.info import ServerRequest
from trainwright.controller.local.cluster import RunningServer, api_server

RBAC = "/apis/rbac.authorization.k8s.io/v1"
SPACE = "/api/v1/namespaces/default"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with api_server(tmp_path / "state", memory=True, rbac=True) as running:
        yield running


@pytest.fixture
def admin(api: RunningServer) -> Asker:
    return Asker(api)


@pytest.fixture
def alice(api: RunningServer) -> Asker:
    return Asker(api, "alice")


def rule(verbs: str, resources: str, **more: Any) -> Document:
    return {
        "apiGroups": more.pop("apiGroups", [""]),
        "resources": resources.split(","),
        "verbs": verbs.split(","),
        **more,
    }


async def grant(
    admin: Asker, name: str, *rules: Document, namespace: str = "", subject: Document | None = None
) -> None:
    """A role, and a binding of the same name, for alice."""
    kind, path = (
        ("Role", f"{RBAC}/namespaces/{namespace}/role") if namespace else ("ClusterRole", f"{RBAC}/clusterrole")
    )
    status, made = await admin("POST", f"{path}s", {"metadata": {"name": name}, "rules": list(rules)})
    assert status == 201, made
    await bind(admin, name, kind, name, namespace=namespace, subject=subject)


async def bind(
    admin: Asker, name: str, kind: str, role: str, *, namespace: str = "", subject: Document | None = None
) -> None:
    path = f"{RBAC}/namespaces/{namespace}/rolebindings" if namespace else f"{RBAC}/clusterrolebindings"
    body = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [subject or {"kind": "User", "name": "alice"}],
    }
    status, made = await admin("POST", path, body)
    assert status == 201, made


async def test_discovery_needs_no_role(alice: Asker) -> None:
    for path in ("/api", "/apis", "/openapi/v3", "/version", "/healthz"):
        assert (await alice("GET", path))[0] == 200, path


async def test_a_right_begins_and_ends_with_its_binding(admin: Asker, alice: Asker) -> None:
    await grant(admin, "reads", rule("get,list,watch", "configmaps"), namespace="default")
    assert (await alice("GET", f"{SPACE}/configmaps"))[0] == 200
    assert (await alice("GET", "/api/v1/configmaps"))[0] == 403
    assert (await alice("GET", "/api/v1/namespaces/kube-system/configmaps"))[0] == 403
    assert (await alice("POST", f"{SPACE}/configmaps", {"metadata": {"name": "a"}}))[0] == 403
    await admin("DELETE", f"{RBAC}/namespaces/default/rolebindings/reads")
    assert (await alice("GET", f"{SPACE}/configmaps"))[0] == 403


@pytest.mark.parametrize("subresource", ["exec", "portforward"])
async def test_a_connection_to_a_pod_needs_the_right_to_create(admin: Asker, alice: Asker, subresource: str) -> None:
    """Although a websocket is asked for with GET: whoever reads everything must not run commands."""
    path = f"{SPACE}/pods/p/{subresource}"
    await grant(admin, "reads", rule("get", "*"), rule("get", "*/*"))
    status, answer = await alice("GET", path)
    assert status == 403
    assert f'cannot create resource "pods/{subresource}"' in answer["message"]
    await grant(admin, "connects", rule("create", f"pods/{subresource}"))
    assert (await alice("GET", path))[0] != 403


async def test_groups_and_service_accounts(api: RunningServer, admin: Asker) -> None:
    account = {"kind": "ServiceAccount", "name": "a"}
    await grant(admin, "account", rule("list", "pods"), namespace="default", subject=account)
    await grant(admin, "staff", rule("list", "nodes"), subject={"kind": "Group", "name": "staff"})
    assert (await Asker(api, "system:serviceaccount:default:a")("GET", f"{SPACE}/pods"))[0] == 200
    assert (await Asker(api, "system:serviceaccount:other:a")("GET", f"{SPACE}/pods"))[0] == 403
    assert (await Asker(api, "bob", "staff")("GET", "/api/v1/nodes"))[0] == 200
    assert (await Asker(api, "bob")("GET", "/api/v1/nodes"))[0] == 403
    assert (await Asker(api, "bob", "system:masters")("GET", "/api/v1/nodes"))[0] == 200


async def test_aggregated_roles_have_the_rules_of_others(admin: Asker, alice: Asker) -> None:
    await bind(admin, "views", "ClusterRole", "view", namespace="default")
    assert (await alice("GET", f"{SPACE}/configmaps"))[0] == 200
    assert (await alice("GET", f"{SPACE}/secrets"))[0] == 403
    labels = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    await admin(
        "POST",
        f"{RBAC}/clusterroles",
        {"metadata": {"name": "more", "labels": labels}, "rules": [rule("list", "secrets")]},
    )
    assert (await alice("GET", f"{SPACE}/secrets"))[0] == 200
    await bind(admin, "admins", "ClusterRole", "admin", namespace="default")
    assert (await alice("POST", f"{SPACE}/configmaps", {"metadata": {"name": "a"}}))[0] == 201, "through edit"


async def test_rules_are_those_of_all_roles(admin: Asker, alice: Asker) -> None:
    await grant(admin, "reads", rule("list", "pods"), {"nonResourceURLs": ["/metrics"], "verbs": ["get"]})
    review = {"spec": {"namespace": "default"}}
    _, made = await alice("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review)
    assert {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]} in made["status"]["resourceRules"]
    assert {"verbs": ["get"], "nonResourceURLs": ["/metrics"]} in made["status"]["nonResourceRules"]
    assert (made["status"]["incomplete"], "evaluationError" in made["status"]) == (False, False)


async def test_aggregation_and_foreign_roles_need_a_right_of_their_own(admin: Asker, alice: Asker) -> None:
    rbac = ["rbac.authorization.k8s.io"]
    await grant(admin, "author", rule("create,update", "roles,rolebindings,clusterroles", apiGroups=rbac))
    aggregates = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    role = {"metadata": {"name": "all"}, "aggregationRule": aggregates}
    _, answer = await alice("POST", f"{RBAC}/clusterroles", role)
    assert answer["message"].endswith("is forbidden: must have cluster-admin privileges to use the aggregationRule")
    reference = {"apiGroup": rbac[0], "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {"metadata": {"name": "b"}, "roleRef": reference, "subjects": [{"kind": "User", "name": "bob"}]}
    path = f"{RBAC}/namespaces/default/rolebindings"
    assert (await alice("POST", path, binding))[0] == 403
    await grant(admin, "may-bind", rule("bind", "clusterroles", apiGroups=rbac, resourceNames=["cluster-admin"]))
    assert (await alice("POST", path, binding))[0] == 201


async def test_impersonation_needs_the_right(api: RunningServer, admin: Asker) -> None:
    """The administrator is in the way of trying it as another user, so a service account does it with its token."""
    await admin("POST", f"{SPACE}/serviceaccounts", {"metadata": {"name": "a"}})
    _, made = await admin("POST", f"{SPACE}/serviceaccounts/a/token", {})
    headers = {"authorization": f"Bearer {made['status']['token']}"}
    wanted = [("impersonate-user", "bob"), ("impersonate-group", "staff")]

    async def ask() -> tuple[int, str]:
        request = ServerRequest(method="GET", path="/api", headers=headers, impersonation=wanted)
        answer = await api.server.handle(request)
        return answer.status, json.loads(answer.body).get("message", "")

    subject = {"kind": "ServiceAccount", "name": "a", "namespace": "default"}
    account = "system:serviceaccount:default:a"
    assert await ask() == (
        403,
        (
            f'users "bob" is forbidden: User "{account}" cannot impersonate resource "users" in API group "" '
            "at the cluster scope"
        ),
    )
    await grant(admin, "users", rule("impersonate", "users", resourceNames=["bob"]), subject=subject)
    assert (await ask())[1].startswith(f'groups "staff" is forbidden: User "{account}" cannot impersonate')
    await grant(admin, "groups", rule("impersonate", "groups"), subject=subject)
    assert (await ask())[0] == 200
