# SPDX-License-Identifier: Apache-2.0
"""What rules allow and cover."""

import pytest

from tests.cases import cases
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.authorization.authorizer import Attributes, forbidden
from trainwright.controller.local.apiserver.authorization.rbac import allows, shown, uncovered
from trainwright.controller.local.apiserver.request.info import User

CASES = cases(__file__)

ALICE = User("alice", ("system:authenticated",))


def rule(verbs: str, resources: str, groups: str = "", names: str = "") -> Document:
    made: Document = {"apiGroups": groups.split(","), "resources": resources.split(","), "verbs": verbs.split(",")}
    return {**made, "resourceNames": names.split(",")} if names else made


def urls(verbs: str, *paths: str) -> Document:
    return {"nonResourceURLs": list(paths), "verbs": verbs.split(",")}


@pytest.mark.parametrize(("one", "allowed"), CASES["a_resource"])
def test_a_resource(one: Document, allowed: bool) -> None:
    assert allows(one, Attributes(user=ALICE, verb="get", resource="pods", name="a", namespace="n")) is allowed


@pytest.mark.parametrize(
    ("resources", "allowed"), [("pods", False), ("pods/log", True), ("*/log", True), ("*", True), ("*/exec", False)]
)
def test_a_subresource(resources: str, allowed: bool) -> None:
    wanted = Attributes(user=ALICE, verb="get", resource="pods", subresource="log", name="a", namespace="n")
    assert allows(rule("get", resources), wanted) is allowed


def test_names_do_not_allow_whole_collections() -> None:
    wanted = Attributes(user=ALICE, verb="list", resource="pods")
    assert not allows(rule("list", "pods", names="a"), wanted)


@pytest.mark.parametrize(
    ("path", "allowed"), [("/healthz", True), ("/healthz/etcd", True), ("/health", False), ("/version", True)]
)
def test_a_path(path: str, allowed: bool) -> None:
    wanted = Attributes(user=ALICE, verb="get", is_resource=False, path=path)
    assert allows(urls("get", "/healthz*", "/version"), wanted) is allowed
    assert not allows(rule("get", "*", "*"), wanted)


@pytest.mark.parametrize(("owned", "wanted", "missing"), CASES["what_is_not_covered"])
def test_what_is_not_covered(owned: list[Document], wanted: Document, missing: list[str]) -> None:
    assert shown(uncovered(owned, [wanted])) == missing


def test_what_could_be_html_is_escaped() -> None:
    wanted = Attributes(user=User("<a>&", ()), verb="get", is_resource=False, path="/")
    assert forbidden(wanted).message == 'forbidden: User "&lt;a&gt;&amp;" cannot get path "/"'
