# SPDX-License-Identifier: Apache-2.0
"""What clients accept, the documents of discovery, and the pages that answer with them.

tests/integration/local/test_views_on_the_real_server.py compares the documents with those of the real API server.
"""

from dataclasses import replace
from typing import Any

import pytest

from tests.cases import cases
from tests.unit.local.things import built_in, custom
from trainwright.controller.local.apiserver.errors import StatusError
from trainwright.controller.local.apiserver.http.pages import ServedDefinitions, health
from trainwright.controller.local.apiserver.kinds.built_in import serve_built_in
from trainwright.controller.local.apiserver.kinds.registry import Resource, ResourceRegistry
from trainwright.controller.local.apiserver.request.info import ServerRequest, ServerResponse
from trainwright.controller.local.apiserver.schema.published.kinds import STATUS_VERBS, Subresource
from trainwright.controller.local.apiserver.views.discovery import discovered, groups_of
from trainwright.controller.local.apiserver.views.negotiation import RESOURCE_FORMS, negotiate

CASES = cases(__file__)

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
WIDGET = custom()


@pytest.mark.parametrize(("header", "accepted"), CASES["negotiation"])
def test_negotiation(header: str, accepted: str | None) -> None:
    if accepted is not None:
        assert negotiate(header, RESOURCE_FORMS) == accepted
        return
    with pytest.raises(StatusError, match="only the following media types are accepted: application/json") as raised:
        negotiate(header, RESOURCE_FORMS)
    assert raised.value.code == 406


def found(path: str, accept: str, *served: Resource) -> dict[str, Any]:
    made = discovered(path, groups_of(served or [*built_in(), WIDGET]), accept, "x:1")
    assert made is not None
    return made


@pytest.mark.parametrize(("path", "accept", "kind"), CASES["forms_of_discovery"])
def test_forms_of_discovery(path: str, accept: str, kind: str | None) -> None:
    if kind == "":
        with pytest.raises(StatusError):
            found(path, accept)
    elif kind is None:
        assert discovered(path, groups_of(built_in()), accept, "x") is None
    else:
        assert found(path, accept)["kind"] == kind


def test_versions_of_a_group() -> None:
    older = replace(WIDGET, version="v1beta1", storage_version="v1")
    versions = [{"groupVersion": f"example.com/{name}", "version": name} for name in ("v1", "v1beta1")]
    assert found("/apis/example.com", "", older, WIDGET) == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "example.com",
        "versions": versions,
        "preferredVersion": versions[0],
    }
    lists = [found(f"/apis/{one.api_version}", "", older, WIDGET)["resources"] for one in (older, WIDGET)]
    assert lists[0][0]["storageVersionHash"] == lists[1][0]["storageVersionHash"]


def test_subresources() -> None:
    thing = Subresource("thing", "Thing", ("create",), "other.com", "v2")
    status = Subresource("status", "Widget", STATUS_VERBS)
    made = replace(WIDGET, namespaced=False, subresources={"thing": thing, "status": status})
    document = found("/apis/example.com/v1", "", made)
    both: dict[str, Any] = {"singularName": "", "namespaced": False}
    of_thing = {"group": "other.com", "version": "v2", "kind": "Thing", "verbs": ["create"]}
    assert document["resources"][1:] == [
        {**both, "name": "widgets/status", "kind": "Widget", "verbs": ["get", "patch", "update"]},
        {**both, "name": "widgets/thing", **of_thing},
    ]


@pytest.fixture
def registry() -> ResourceRegistry:
    made = ResourceRegistry()
    serve_built_in(made, for_others=True)
    return made


def asked(pages: ServedDefinitions, path: str = "/apis", **headers: str) -> ServerResponse:
    named = {"accept": V2, **{name.replace("_", "-"): value for name, value in headers.items()}}
    answer = pages(ServerRequest(method="GET", path=path, headers=named))
    assert answer is not None
    return answer


def test_not_modified_has_the_content_type_of_what_the_client_keeps(registry: ResourceRegistry) -> None:
    """kubectl's cache replaces the headers of the kept answer by those of the 304."""
    pages = ServedDefinitions(registry)
    first = asked(pages)
    again = asked(pages, if_none_match=first.headers["ETag"])
    assert (first.status, again.status, again.body) == (200, 304, b"")
    assert again.content_type == first.content_type == V2
    assert asked(pages, if_none_match='"other"').status == 200
    registry.remove("batch", "jobs")
    changed = asked(pages, if_none_match=first.headers["ETag"])
    assert changed.status == 200
    assert b'"jobs"' in first.body
    assert b'"jobs"' not in changed.body


def test_answers_are_kept_by_all_that_they_depend_on_and_not_without_end(registry: ResourceRegistry) -> None:
    pages = ServedDefinitions(registry)
    assert asked(pages).content_type == V2
    assert asked(pages, accept="application/json").content_type == "application/json"
    for number in range(300):
        assert f'"host:{number}"'.encode() in asked(pages, "/api", accept="*/*", host=f"host:{number}").body
    assert len(pages._made) <= 100


@pytest.mark.parametrize("path", ["/healthz", "/livez/", "/readyz", "/readyz/ping", "/livez/etcd"])
def test_health(path: str) -> None:
    answer = health(ServerRequest(method="GET", path=path, query=[("verbose", ""), ("exclude", "etcd")]))
    assert answer is not None
    assert answer.body == b"ok"


@pytest.mark.parametrize("path", ["/healthzz", "/readyz/other", "/livez/shutdown"])
def test_other_checks(path: str) -> None:
    assert health(ServerRequest(method="GET", path=path)) is None
