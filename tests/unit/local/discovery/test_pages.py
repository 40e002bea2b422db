# SPDX-License-Identifier: Apache-2.0
"""Answers to requests for discovery, with their headers."""

import msgspec

from trainwright.controller.local.apiserver.http.pages import DiscoveryPages, RootPage, health
from trainwright.controller.local.apiserver.kinds.built_in import serve_built_in
from trainwright.controller.local.apiserver.kinds.registry import ResourceRegistry
from trainwright.controller.local.apiserver.request.info import ServerRequest, ServerResponse

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def asked(pages: DiscoveryPages, **headers: str) -> ServerResponse:
    request = ServerRequest(
        method="GET",
        path="/apis",
        query=[],
        headers={"accept": V2, **{k.replace("_", "-"): v for k, v in headers.items()}},
    )
    answer = pages(request)
    assert answer is not None
    return answer


def read(path: str, *query: tuple[str, str]) -> str | None:
    answer = health(ServerRequest(method="GET", path=path, query=query))
    return None if answer is None else answer.body.decode()


def test_health() -> None:
    for path in ("/healthz", "/livez/", "/readyz", "/readyz/ping", "/livez/etcd"):
        assert read(path) == "ok"
    for path in ("/healthzz", "/readyz/other", "/livez/shutdown"):
        assert read(path) is None
    assert read("/readyz", ("verbose", ""), ("exclude", "etcd")) == "ok"


def test_the_root_lists_all_paths() -> None:
    registry = ResourceRegistry()
    serve_built_in(registry, for_others=False)
    root = RootPage(registry)
    answer = root(ServerRequest(method="GET", path="/"))
    assert answer is not None
    paths = msgspec.json.decode(answer.body)["paths"]
    assert paths == sorted(paths)
    assert {"/api", "/api/v1", "/apis", "/apis/batch", "/apis/batch/v1", "/livez/ping", "/version"} <= set(paths)
    assert root(ServerRequest(method="GET", path="/other")) is None


def test_not_modified_has_the_content_type_of_what_the_client_keeps() -> None:
    """kubectl's cache replaces the headers of the kept answer by those of the 304."""
    registry = ResourceRegistry()
    serve_built_in(registry, for_others=True)
    pages = DiscoveryPages(registry)
    first = asked(pages)
    again = asked(pages, if_none_match=first.headers["ETag"])
    assert (first.status, again.status, again.body) == (200, 304, b"")
    assert again.content_type == first.content_type == V2
    assert asked(pages, if_none_match='"other"').status == 200


def test_a_kept_answer_ends_with_a_change_of_what_is_served() -> None:
    registry = ResourceRegistry()
    serve_built_in(registry, for_others=True)
    pages = DiscoveryPages(registry)
    first = asked(pages)
    assert b'"jobs"' in first.body
    assert asked(pages).body == first.body
    registry.remove("batch", "jobs")
    second = asked(pages)
    assert b'"jobs"' not in second.body
    assert second.headers["ETag"] != first.headers["ETag"]


def test_answers_are_kept_by_all_that_they_depend_on() -> None:
    registry = ResourceRegistry()
    serve_built_in(registry, for_others=True)
    pages = DiscoveryPages(registry)
    assert asked(pages).content_type == V2
    assert asked(pages, accept="application/json").content_type == "application/json"
    for host in ("one:1", "two:2"):
        core = pages(ServerRequest(method="GET", path="/api", headers={"accept": "application/json", "host": host}))
        assert core is not None
        assert f'"{host}"'.encode() in core.body


def test_a_client_cannot_have_answers_kept_without_end() -> None:
    registry = ResourceRegistry()
    serve_built_in(registry, for_others=True)
    pages = DiscoveryPages(registry)
    for number in range(300):
        asked(pages, host=f"host-{number}")
    assert len(pages._made) <= 100
