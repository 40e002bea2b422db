# SPDX-License-Identifier: Apache-2.0
"""Random requests, most of them wrong, for the local API server. It must answer each one, and never with a defect."""

import asyncio
import json
import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from tests.integration.local.random_writes import groups
from trainwright.controller.local.apiserver.request.info import ServerRequest, ServerResponse
from trainwright.controller.local.cluster import RunningServer, api_server

_ALONE = ("namespaces", "nodes", "customresourcedefinitions", "tokenreviews", "mutatingwebhookconfigurations")
METHODS = [
    *("GET", "GET", "GET", "POST", "POST", "PUT", "PATCH", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "FOO", ""),
]
GROUPS = [
    *("api/v1", "apis/batch/v1", "apis/coordination.k8s.io/v1", "apis/schema.example.com/v1", "apis/x/v1"),
    *("api", "apis", "api/v2", ""),
]
KINDS = [
    *("pods", "configmaps", "jobs", "leases", "shapes", "namespaces", "nodes", "secrets", "events", "tokenreviews"),
    *("nothing", "%00", ".."),
]
SERVED = [
    *(("api/v1", kind) for kind in ("pods", "pods", "configmaps", "secrets", "serviceaccounts", "events")),
    *(("api/v1", kind) for kind in ("namespaces", "nodes")),
    ("apis/batch/v1", "jobs"),
    ("apis/coordination.k8s.io/v1", "leases"),
    ("apis/schema.example.com/v1", "shapes"),
    ("apis/apiextensions.k8s.io/v1", "customresourcedefinitions"),
    ("apis/authentication.k8s.io/v1", "tokenreviews"),
    ("apis/admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations"),
]
SUBRESOURCES = [
    *("", "", "", "status", "binding", "log", "exec", "token", "eviction", "finalize", "scale", "nothing", "log/x"),
]
TYPES = [
    *(f"application/{kind}" for kind in ("json", "yaml", "vnd.kubernetes.protobuf", "cbor", "apply-patch+yaml")),
    *(f"application/{kind}+json" for kind in ("json-patch", "merge-patch", "strategic-merge-patch")),
    *("text/plain", "", "application/json; charset=latin-1"),
]
ACCEPTS = (
    "application/json",
    "*/*",
    "",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=Nonsense;v=v9;g=x",
    "application/yaml",
    "text/html",
    ";;;,,=",
)
QUERIES = (
    ("labelSelector", ("a=b", "a in (", "!", "a,,b", "a notin (x,y)", "=", "\u00e9=1")),
    ("fieldSelector", ("metadata.name=a", "spec.x=1", "=", "status.phase!=Running", "a\\")),
    ("resourceVersion", ("0", "1", "abc", "-1", "99999999999999999999", "")),
    ("resourceVersionMatch", ("Exact", "NotOlderThan", "Foo")),
    ("limit", ("1", "0", "-5", "x", "99999999999999999999")),
    ("continue", ("e30", "x", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0", "\u0000")),
    ("dryRun", ("All", "Some", "")),
    ("fieldManager", ("m", "", "x" * 200, "\u0007")),
    ("force", ("true", "maybe")),
    ("fieldValidation", ("Strict", "Warn", "Ignore", "Loose")),
    ("propagationPolicy", ("Foreground", "Orphan", "Bar")),
    ("gracePeriodSeconds", ("0", "-1", "x")),
    ("timeoutSeconds", ("1", "0", "x")),
    ("container", ("a", "")),
    ("tailLines", ("-1", "5", "x")),
    ("sinceTime", ("2026-01-01T00:00:00Z", "yesterday")),
    ("includeObject", ("None", "Some")),
    ("pretty", ("true",)),
)


def value(depth: int = 0) -> Any:  # noqa: PLR0911 - one for each kind
    """Any JSON."""
    kinds = ["null", "bool", "int", "float", "text"] + (["list", "dict", "dict"] if depth < 4 else [])
    match random.choice(kinds):
        case "null":
            return None
        case "bool":
            return random.random() < 0.5
        case "int":
            return random.choice((0, 1, -1, 2**31, 2**63, 10**30))
        case "float":
            return random.choice((0.5, -1e300, 1e-9))
        case "list":
            return [value(depth + 1) for _ in range(random.randrange(3))]
        case "dict":
            return {random.choice(FIELDS): value(depth + 1) for _ in range(random.randrange(5))}
    return random.choice(("", "a", "A_b", "x" * 300, "\u0000", "\U0001f600", "2026-01-01T00:00:00Z"))


FIELDS = (
    *("apiVersion", "kind", "metadata", "name", "namespace", "labels", "annotations", "finalizers", "ownerReferences"),
    *("managedFields", "resourceVersion", "uid", "generateName", "spec", "status", "data", "containers", "template"),
    *("selector", "type", "image", "ports", "env", "$patch", "$setElementOrder/containers"),
    *("op", "path", "value", "target"),
    *("preconditions", "items", "conditions", "suspend", "completions", "\u00e9", "", "a.b/c"),
)


def nearly_right() -> dict[str, Any]:
    """An object that has one or two things wrong."""
    kind = random.choice((("v1", "ConfigMap"), ("v1", "Pod"), ("batch/v1", "Job"), ("schema.example.com/v1", "Shape")))
    made: dict[str, Any] = {"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": random.choice("abc")}}
    place = made if random.random() < 0.5 else made["metadata"]
    place[random.choice(FIELDS)] = value()
    return made


def body() -> bytes:  # noqa: PLR0911 - one for each kind
    """Most bodies are odd."""
    match random.randrange(8):
        case 0:
            return b""
        case 1:
            return random.randbytes(random.randrange(60))
        case 2:
            return b"k8s\0" + random.randbytes(random.randrange(80))
        case 3:
            return b"[" * random.choice((10, 1_000, 100_000))
        case 4:
            return json.dumps([value() for _ in range(random.randrange(4))]).encode()
        case 5:
            return b"a: &x [*x, *x]\nb: {c: !!python/object:os.system x}\n" + random.randbytes(5)
        case 6:
            return json.dumps(value()).encode()
    return json.dumps(nearly_right()).encode()


def request(token: str) -> ServerRequest:
    """One request."""
    group, kind = random.choice(SERVED) if random.random() < 0.9 else (random.choice(GROUPS), random.choice(KINDS))
    parts = [group]
    if kind not in _ALONE and random.random() < 0.9:
        parts += ["namespaces", random.choice(("default", "default", "default", "absent", "", "x" * 100))]
    parts.append(kind)
    if random.random() < 0.6:
        parts.append(random.choice(("a", "b", "c", "", ".", "%2F", "\u00e9")))
        parts.append(random.choice(SUBRESOURCES))
    chosen = random.sample(QUERIES, random.choice((0, 0, 1, 2, 4)))
    return ServerRequest(
        method=random.choice(METHODS),
        path="/" + "/".join(parts),
        query=[(name, random.choice(values)) for name, values in chosen],
        headers={
            "authorization": f"Bearer {token if random.random() < 0.97 else 'wrong'}",
            "content-type": random.choice(TYPES),
            "accept": random.choice(ACCEPTS),
            "user-agent": random.choice(("fuzz/1", "", "\u0007/", "x" * 300)),
        },
        body=body(),
    )


async def _bombard(api: RunningServer, count: int) -> tuple[Counter[int], list[str]]:
    token = api.config.token
    assert token is not None
    codes: Counter[int] = Counter()
    wrong: list[str] = []
    for _ in range(count):
        asked = request(token)
        try:
            async with asyncio.timeout(20):
                answer: ServerResponse = await api.server.handle(asked)
        except TimeoutError:
            wrong.append(f"no answer: {asked}")
            continue
        codes[answer.status] += 1
        if answer.status == 500 and b"could not be answered" in answer.body:
            wrong.append(f"a defect: {asked}")
        if answer.stream is not None:
            async for _chunk in answer.stream:
                break
            await answer.stream.aclose()  # type: ignore[attr-defined]  # all streams are generators
    return codes, wrong


def bombard(seed: int, count: int) -> tuple[Counter[int], list[str]]:
    """Send so many random requests to a server of its own; gives the codes, and what was wrong."""

    async def run() -> tuple[Counter[int], list[str]]:
        with tempfile.TemporaryDirectory() as folder:
            async with api_server(Path(folder), memory=True) as api:
                token = api.config.token
                await api.server.handle(
                    ServerRequest(
                        method="POST",
                        path="/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                        headers={"authorization": f"Bearer {token}"},
                        body=json.dumps(groups()["shapes"]["definition"]).encode(),
                    )
                )
                return await _bombard(api, count)

    random.seed(seed)
    return asyncio.run(run())
