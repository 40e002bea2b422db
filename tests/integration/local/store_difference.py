# SPDX-License-Identifier: Apache-2.0
"""Random requests about versions, to the real API server and to ours: conflicts, watches, lists of then, pages.

Both get the same requests, in which a version is named by the write that made it. What is compared is made comparable
as the answers of scenarios are.
"""

import asyncio
import json
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.scenarios import comparison
from tests.scenarios.normal import normal
from tests.scenarios.runner import AGENT
from tests.scenarios.sides import Side
from trainwright.controller.runtime.client.transport import Request

NAMES = ("a", "a-b", "b", "c")
RESOURCES = ("configmaps", "secrets")
_LAST = "last"
_HEADERS = {"Content-Type": "application/json", "User-Agent": AGENT}
_SECONDS = 300.0
"""How long a watch may take: it lasts as long as all requests do."""


@dataclass
class Half:
    """What one side answered."""

    side: Side
    answers: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    versions: dict[int, str] = field(default_factory=dict[int, str])
    """Versions by the number of the write."""
    uids: dict[int, str] = field(default_factory=dict[int, str])
    pages: dict[int, str] = field(default_factory=dict[int, str])
    """Tokens by the number of the list."""
    watches: list["asyncio.Task[dict[str, Any]]"] = field(default_factory=list["asyncio.Task[dict[str, Any]]"])


async def differences(real: Side, ours: Side, seed: int, operations: int) -> tuple[Counter[str], list[str]]:
    """Send both sides the same requests. Returns what was sent, and the steps that were answered differently."""
    halves = (Half(real), Half(ours))
    namespaces = [f"versions-{seed}-{number}" for number in range(2)]
    plan = _plan(random.Random(seed), namespaces, operations)
    for half in halves:
        for namespace in namespaces:
            await _send(half, Request("POST", "/api/v1/namespaces", headers=_HEADERS, body=_bytes({"name": namespace})))
        for number, step in enumerate(plan):
            await _run(half, number, step)
        half.answers += await asyncio.gather(*half.watches)
    left, right = (normal(half.answers) for half in halves)
    statuses = {int(answer["step"]): answer["status"] for answer in left}
    counts = Counter(f"{step['verb']} {statuses[number]}" for number, step in enumerate(plan))
    return counts, [f"seed {seed}, {plan[int(one.step)]}: {one}" for one in comparison.differences(left, right)]


def _plan(dice: random.Random, namespaces: list[str], operations: int) -> list[dict[str, Any]]:
    """The steps. A version is the number of an earlier write; a page that of an earlier list."""
    plan: list[dict[str, Any]] = []
    writes: list[int] = []
    lists: list[int] = []
    verbs = {"POST": 12, "PUT": 22, "PATCH": 8, "DELETE": 10, "LIST": 24, "GET": 4, "WATCH": 6}
    for number, verb in enumerate(dice.choices(list(verbs), list(verbs.values()), k=operations)):
        namespace = dice.choice(namespaces)
        step: dict[str, Any] = {
            "verb": verb,
            "path": f"/api/v1/namespaces/{namespace}/{dice.choice(RESOURCES)}",
            "name": dice.choice(NAMES),
            "value": str(number),
            "label": dice.choice(("x", "y", None)),
            "version": dice.choice(writes[-12:]) if writes and dice.random() < 0.6 else None,
            "uid": dice.choice(writes[-12:]) if writes and dice.random() < 0.2 else None,
        }
        if verb == "LIST":
            step |= {
                "limit": dice.choice((None, None, 1, 2)),
                "match": dice.choice((None, "Exact", "NotOlderThan")) if step["version"] is not None else None,
                "selector": dice.choice((None, None, "l=x", "l!=x")),
            }
            if lists and dice.random() < 0.4:
                page = dice.choice(lists[-6:])
                # A page goes on in the collection of the list that it is of.
                step |= {"page": page, "path": plan[page]["path"], "version": None, "match": None}
            lists.append(number)
        elif verb == "WATCH":
            step |= {"selector": dice.choice((None, "l=x")), "bookmarks": False}
        elif verb not in ("GET", "DELETE"):
            writes.append(number)
        plan.append(step)
    for namespace in namespaces:
        # Ends the watches: what they have not told before this one they do not tell.
        for resource in RESOURCES:
            path = f"/api/v1/namespaces/{namespace}/{resource}"
            last = {"verb": "POST", "path": path, "name": _LAST, "value": "", "label": "x"}
            plan.append({**last, "version": None, "uid": None})
    return plan


async def _run(half: Half, number: int, step: dict[str, Any]) -> None:
    version = half.versions.get(step["version"], "") if step["version"] is not None else ""
    verb = step["verb"]
    if verb == "WATCH":
        # Without a version it begins with what there is, other than with 0, which a cache may answer.
        query = {"watch": "true", "resourceVersion": version}
        if step["selector"]:
            query["labelSelector"] = step["selector"]
        opened = asyncio.Event()
        watching = _watch(half, number, Request("GET", step["path"], query), opened)
        half.watches.append(asyncio.create_task(watching))
        await opened.wait()
        return
    if verb == "LIST":
        await _list(half, number, step, version)
        return
    answer = await _send(half, _request(half, step, version))
    half.answers.append({"step": str(number), **answer})
    if answer["status"] < 300 and verb in ("POST", "PUT", "PATCH"):
        said = answer["body"]["metadata"]
        half.versions[number], half.uids[number] = said["resourceVersion"], said["uid"]


def _request(half: Half, step: dict[str, Any], version: str) -> Request:
    """A request about one object."""
    verb, path, headers = step["verb"], step["path"], dict(_HEADERS)
    metadata: dict[str, Any] = {"name": step["name"]}
    if step["label"]:
        metadata["labels"] = {"l": step["label"]}
    if verb == "POST":
        return Request(verb, path, {}, headers, _bytes(metadata, step["value"]))
    path += f"/{step['name']}"
    known = {"uid": half.uids.get(step["uid"]), "resourceVersion": version}
    known = {key: value for key, value in known.items() if value}
    if verb == "GET":
        return Request(verb, path)
    if verb == "DELETE":
        return Request(verb, path, {}, headers, json.dumps({"preconditions": known}).encode())
    if verb == "PATCH":
        headers["Content-Type"] = "application/merge-patch+json"
    return Request(verb, path, {}, headers, _bytes(metadata | known, step["value"]))


async def _list(half: Half, number: int, step: dict[str, Any], version: str) -> None:
    answer = await _send(half, Request("GET", step["path"], _list_query(half, step, version)))
    half.answers.append({"step": str(number), **answer})
    said = answer["body"].get("metadata") or {}
    if version and step["match"] != "Exact":
        # The real server may answer from a cache, which knows only that it is new enough.
        said.pop("resourceVersion", None)
    elif said.get("continue"):
        half.pages[number] = said["continue"]


def _list_query(half: Half, step: dict[str, Any], version: str) -> dict[str, str]:
    query = {"resourceVersion": version, "resourceVersionMatch": step["match"] if version else None}
    query |= {"limit": step["limit"], "labelSelector": step["selector"]}
    if step.get("page") in half.pages:
        query["continue"] = half.pages[step["page"]]
    return {key: str(value) for key, value in query.items() if value}


async def _watch(half: Half, number: int, request: Request, opened: asyncio.Event) -> dict[str, Any]:
    """All events until the last object of the plan, or the end."""
    request.timeout = None
    frames: list[dict[str, Any]] = []
    async with asyncio.timeout(_SECONDS), half.side.transport().open(request) as stream:
        opened.set()
        rest = b""
        async for chunk in stream.chunks():
            *lines, rest = (rest + chunk).split(b"\n")
            frames += [json.loads(line) for line in lines if line]
            if frames and (frames[-1]["type"] == "ERROR" or frames[-1]["object"]["metadata"]["name"] == _LAST):
                break
    if not request.query["resourceVersion"]:
        # What is there comes in no order.
        frames.sort(key=lambda frame: int(frame["object"]["metadata"]["resourceVersion"]))
    return {"step": str(number), "status": stream.status, "frames": frames}


async def _send(half: Half, request: Request) -> dict[str, Any]:
    answer = await half.side.transport().send(request)
    return {"path": f"{request.method} {request.path}", "status": answer.status, "body": json.loads(answer.body)}


def _bytes(metadata: dict[str, Any], value: str | None = None) -> bytes:
    document: dict[str, Any] = {"metadata": metadata}
    if value is not None:
        # ConfigMaps have texts here, Secrets base64 of anything: digits in fours are both.
        document["data"] = {"n": value.zfill(4)}
    return json.dumps(document).encode()
