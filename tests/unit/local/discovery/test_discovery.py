# SPDX-License-Identifier: Apache-2.0
"""What clients accept, and the documents of discovery.

tests/integration/local/test_local_discovery.py compares the documents with those of the real API server.
"""

from dataclasses import replace

import pytest

from tests.unit.local.things import built_in, custom
from trainwright.controller.local.apiserver.errors import StatusError
from trainwright.controller.local.apiserver.schema.published.kinds import STATUS_VERBS, Subresource
from trainwright.controller.local.apiserver.views import discovery
from trainwright.controller.local.apiserver.views.discovery import groups_of
from trainwright.controller.local.apiserver.views.negotiation import (
    RESOURCE_FORMS,
    MediaTypeOptions,
    negotiate,
)

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
V2BETA1 = V2.replace("v=v2", "v=v2beta1")
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
WIDGET = custom()


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("", MediaTypeOptions()),
        ("*/*", MediaTypeOptions()),
        ("*", MediaTypeOptions()),
        ("application/*", MediaTypeOptions()),
        ("application/yaml", MediaTypeOptions(yaml=True)),
        ("application/json;q=0.5, application/yaml", MediaTypeOptions(yaml=True)),
        ("*/*, application/yaml", MediaTypeOptions(yaml=True)),
        ("application/vnd.kubernetes.protobuf, */*", MediaTypeOptions()),
        ("application/vnd.kubernetes.protobuf,application/json", MediaTypeOptions()),
        ("application/json; charset=utf-8", MediaTypeOptions()),
        ("application/json;stream=watch", MediaTypeOptions()),
        (TABLE, MediaTypeOptions(kind="Table")),
        (f"{TABLE},application/json", MediaTypeOptions(kind="Table")),
        ("application/json;as=Foo;v=v1;g=meta.k8s.io,application/yaml", MediaTypeOptions(yaml=True)),
        ("text/html;q=x, application/json", MediaTypeOptions()),
        ("nonsense, application/json", MediaTypeOptions()),
    ],
)
def test_negotiation(header: str, accepted: MediaTypeOptions) -> None:
    assert negotiate(header, RESOURCE_FORMS) == accepted


@pytest.mark.parametrize(
    "header",
    ["text/html", "application/json;as=Foo;v=v1;g=meta.k8s.io", "application/json;stream=x", "application/json;v=v1"],
)
def test_what_is_not_acceptable(header: str) -> None:
    with pytest.raises(StatusError) as raised:
        negotiate(header, RESOURCE_FORMS)
    assert raised.value.code == 406
    assert str(raised.value) == "only the following media types are accepted: application/json, application/yaml"


def test_forms_of_discovery() -> None:
    served = groups_of([*built_in(), WIDGET])
    core = served[0]
    legacy = discovery.groups("", served)
    assert (legacy.document["kind"], legacy.content_type) == ("APIGroupList", "application/json")
    assert [group["name"] for group in legacy.document["groups"]][-1] == "example.com"
    for accept in (V2, f"{V2},{V2BETA1},application/json", f"{V2};profile=nopeer"):
        aggregated = discovery.groups(accept, served)
        assert aggregated.document["apiVersion"] == "apidiscovery.k8s.io/v2"
        assert aggregated.content_type == V2
        assert aggregated.media_type == "application/json"
    assert discovery.core_versions(V2, core, "x").document["items"][0]["metadata"] == {}
    # Kubernetes 1.36 has dropped it.
    assert discovery.groups(f"{V2BETA1},application/json", served).document["kind"] == "APIGroupList"
    with pytest.raises(StatusError):
        discovery.groups(V2BETA1, served)
    with pytest.raises(StatusError):
        discovery.group(V2, core)


def test_versions_of_a_group() -> None:
    older = replace(WIDGET, version="v1beta1", storage_version="v1")
    (group,) = groups_of([older, WIDGET])
    assert group.preferred == "v1"
    assert discovery.group("", group).document == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "example.com",
        "versions": [
            {"groupVersion": "example.com/v1", "version": "v1"},
            {"groupVersion": "example.com/v1beta1", "version": "v1beta1"},
        ],
        "preferredVersion": {"groupVersion": "example.com/v1", "version": "v1"},
    }
    hashes = [
        discovery.resources("", one.api_version, [one]).document["resources"][0]["storageVersionHash"]
        for one in (older, WIDGET)
    ]
    assert hashes[0] == hashes[1]


def test_subresources() -> None:
    thing = Subresource("thing", "Thing", ("create",), "other.com", "v2")
    status = Subresource("status", "Widget", STATUS_VERBS)
    made = replace(WIDGET, namespaced=False, subresources={"thing": thing, "status": status})
    document = discovery.resources("application/yaml", "example.com/v1", [made])
    assert document.media_type == "application/yaml"
    assert document.document["resources"][1:] == [
        {
            "name": "widgets/status",
            "singularName": "",
            "namespaced": False,
            "kind": "Widget",
            "verbs": ["get", "patch", "update"],
        },
        {
            "name": "widgets/thing",
            "singularName": "",
            "namespaced": False,
            "group": "other.com",
            "version": "v2",
            "kind": "Thing",
            "verbs": ["create"],
        },
    ]


def test_version() -> None:
    document = discovery.version("", "v1.36.3+local", "python3.11", "linux/amd64", "2026-01-02T03:04:05Z").document
    assert (document["major"], document["minor"], document["minCompatibilityMinor"]) == ("1", "36", "35")
    assert document["gitVersion"] == "v1.36.3+local"


def test_etags() -> None:
    assert discovery.etag(b"x") == discovery.etag(b"x") != discovery.etag(b"y")
    assert len(discovery.etag(b"x")) == 130
