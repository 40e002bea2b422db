# SPDX-License-Identifier: Apache-2.0
"""Random requests, most of them wrong, for the local API server. It must answer each one, and never with a defect."""

import asyncio
import json
import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from tests.cases import cases
from tests.integration.local.random_writes import groups
from trainwright.controller.local.apiserver.request.info import ServerRequest, ServerResponse
from trainwright.controller.local.cluster import RunningServer, api_server

_DATA = cases(__file__)
"""What a request may be made of, most of it wrong."""


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
            return {random.choice(_DATA["fields"]): value(depth + 1) for _ in range(random.randrange(5))}
    return random.choice(("", "a", "A_b", "x" * 300, "\u0000", "\U0001f600", "2026-01-01T00:00:00Z"))


def nearly_right() -> dict[str, Any]:
    """An object that has one or two things wrong."""
    kind = random.choice((("v1", "ConfigMap"), ("v1", "Pod"), ("batch/v1", "Job"), ("schema.example.com/v1", "Shape")))
    made: dict[str, Any] = {"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": random.choice("abc")}}
    place = made if random.random() < 0.5 else made["metadata"]
    place[random.choice(_DATA["fields"])] = value()
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
    group, kind = (
        random.choice(_DATA["served"])
        if random.random() < 0.9
        else (random.choice(_DATA["groups"]), random.choice(_DATA["kinds"]))
    )
    parts = [group]
    if kind not in _DATA["alone"] and random.random() < 0.9:
        parts += ["namespaces", random.choice(("default", "default", "default", "absent", "", "x" * 100))]
    parts.append(kind)
    if random.random() < 0.6:
        parts.append(random.choice(("a", "b", "c", "", ".", "%2F", "\u00e9")))
        parts.append(random.choice(_DATA["subresources"]))
    chosen = random.sample(_DATA["queries"], random.choice((0, 0, 1, 2, 4)))
    return ServerRequest(
        method=random.choice(_DATA["methods"]),
        path="/" + "/".join(parts),
        query=[(name, random.choice(values)) for name, values in chosen],
        headers={
            "authorization": f"Bearer {token if random.random() < 0.97 else 'wrong'}",
            "content-type": random.choice(_DATA["types"]),
            "accept": random.choice(_DATA["accepts"]),
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
