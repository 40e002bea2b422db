# SPDX-License-Identifier: Apache-2.0
"""Our selectors beside those of the real API server: what they select and refuse."""

import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import pytest

from tests.unit.local.things import custom, resource
from trainwright.api.selectors import SelectorError, parse_label_selector
from trainwright.controller.local.apiserver.views.selection import (
    parse_field_selector,
    selectable_fields,
)
from trainwright.controller.runtime import HTTPTransport, load_config
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.testing import ControlPlane

Document = dict[str, Any]

JSON = {"Content-Type": "application/json"}

LABELS = [{}, {"a": "1"}, {"a": "2", "b/c": "x"}, {"a": ""}, {"in": "notin", "a": "x"}]
LABEL_SELECTORS = """
a b;(a;a=b,;,a;a in b
a in (;a in (b;a in (b,;a in (b c);a=(b);!a=b;!;!!a;a>x;a<;A/B/c;B/c;-a;a=-b;a=!b;a=>b;=b;a in (b,)c;a,,b
a in (=);a in (b,-c,d_);é=x;a>1,a<-b;a/;/a;a=é;a&a;a=b=c;a><b;);a in =;a!b;a in ((b);a in (b)(c);a=1 2
a;!a;a=1;a==1;a!=1;a=;a in (1,2);a in ();a in (,);a in (1,,2);a notin (1);a notin ();a>1;a<2;a>-1;in;in=notin;notin!=x
in in (in,notin);a,b/c=x; a = 1 ;a=1,!b/c;b/c in (x);a>1,a<3
"""
FIELD_SELECTORS = r"""
foo=b;metadata.name;metadata.namespace=x;metadata.name=a\b;metadata.name==x=y;metadata.name=a,,foo!=b;spec.host=;=;=x;!=;,
metadata.name=o1;metadata.name!=o1;metadata.name==o1,metadata.name!=o2;regarding.name=x;involvedObject.name=x;type=a
spec.nodeName=;status.phase=Pending;status.podIPs=;status.podIP=;spec.hostNetwork=false;spec.restartPolicy=Always
status.successful=0;status.successful!=0;spec.type=ClusterIP;spec.clusterIP=None;metadata.name=a\,b;z=\;a=\
"""
KINDS = {
    "api/v1/pods": ("v1", "Pod"),
    "api/v1/configmaps": ("v1", "ConfigMap"),
    "api/v1/services": ("v1", "Service"),
    "api/v1/secrets": ("v1", "Secret"),
    "api/v1/events": ("v1", "Event"),
    "apis/events.k8s.io/v1/events": ("events.k8s.io/v1", "Event"),
    "apis/batch/v1/jobs": ("batch/v1", "Job"),
    "apis/coordination.k8s.io/v1/leases": ("coordination.k8s.io/v1", "Lease"),
    "apis/trainer.kubeflow.org/v1alpha1/trainjobs": ("trainer.kubeflow.org/v1alpha1", "TrainJob"),
}
CLUSTER_KINDS = {
    "api/v1/nodes": ("v1", "Node"),
    "api/v1/namespaces": ("v1", "Namespace"),
    "apis/storage.k8s.io/v1/storageclasses": ("storage.k8s.io/v1", "StorageClass"),
}
SPECS: dict[str, Document] = {
    "Pod": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
    "Service": {"spec": {"clusterIP": "None", "ports": [{"port": 80}]}},
}


def listed(text: str) -> list[str]:
    return [selector for line in text.strip("\n").split("\n") for selector in line.split(";")]


@pytest.fixture
async def transport(control_plane: ControlPlane) -> AsyncIterator[HTTPTransport]:
    made = HTTPTransport(load_config(control_plane.kubeconfig))
    yield made
    await made.close()


async def send(transport: HTTPTransport, request: Request) -> Document:
    found: Document = json.loads((await transport.send(request)).body)
    assert request.method == "GET" or found["kind"] != "Status", found["message"]
    return found


def names(documents: Iterable[Document]) -> list[str]:
    return sorted(document["metadata"]["name"] for document in documents)


def chosen(compile_: Callable[[], Callable[[Document], bool]], documents: list[Document]) -> object:
    """The names of what ours selects, or how it refuses the selector."""
    try:
        matches = compile_()
    except SelectorError:
        return 400, "BadRequest"
    return names(filter(matches, documents))


def said(answer: Document) -> object:
    """The same of the real server's answer."""
    if "items" in answer:
        return names(answer["items"])
    return answer["code"], answer["reason"]


async def test_label_selectors(transport: HTTPTransport, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    for index, labels in enumerate(LABELS):
        body = {"metadata": {"name": f"o{index}", "labels": labels}}
        await send(transport, Request("POST", path, {}, JSON, json.dumps(body).encode()))
    everything = (await send(transport, Request("GET", path)))["items"]
    for selector in listed(LABEL_SELECTORS):
        real = await send(transport, Request("GET", path, {"labelSelector": selector}))
        assert chosen(lambda: parse_label_selector(selector).matches_document, everything) == said(real), selector  # noqa: B023


async def test_field_selectors(transport: HTTPTransport, namespace: str) -> None:
    for place, kind in (KINDS | CLUSTER_KINDS).items():
        group, _, plural = place.rpartition("/")
        path = f"/{group}/{plural}" if place in CLUSTER_KINDS else f"/{group}/namespaces/{namespace}/{plural}"
        if kind[1] in ("Pod", "Service", "ConfigMap", "Secret"):
            for name in ("o1", "o2"):
                body = {**SPECS.get(kind[1], {}), "metadata": {"name": name}}
                await send(transport, Request("POST", path, {}, JSON, json.dumps(body).encode()))
        everything = (await send(transport, Request("GET", path)))["items"]
        fields = selectable_fields(custom() if kind[1] == "TrainJob" else resource(*kind))
        for selector in listed(FIELD_SELECTORS):
            real = await send(transport, Request("GET", path, {"fieldSelector": selector}))
            found = chosen(lambda: parse_field_selector(selector, fields).matches, everything)  # noqa: B023
            assert found == said(real), (kind, selector)
