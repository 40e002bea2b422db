# SPDX-License-Identifier: Apache-2.0
"""Runs a scenario against a server. Answers are kept as they come; `normal` makes them comparable."""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from tests.scenarios.hooks import serving
from tests.scenarios.model import PATCHES, Scenario, Step
from tests.scenarios.setup import prepare
from tests.scenarios.sides import Side
from trainwright.controller.runtime.client.transport import Request, Stream
from trainwright.controller.runtime.testing.waiting import eventually

Answer = dict[str, Any]
AGENT = "scenario/1.0 (test)"
WAIT_SECONDS = 30.0
_HOLE = re.compile(r"\$\{(?:(?P<text>[^$]*?)\*(?P<times>\d+)|(?P<name>\w+)(?:\+(?P<plus>\d+))?)\}", re.DOTALL)


class ScenarioError(AssertionError):
    """A scenario cannot be run to its end."""


class Runner:
    """Runs one scenario."""

    def __init__(self, side: Side, scenario: Scenario) -> None:
        self._side = side
        self._scenario = scenario
        self._values: dict[str, str] = {"ns": scenario.namespace}
        self._reviews: list[dict[str, Any]] = []

    async def run(self) -> list[Answer]:
        """The answers to the steps, in their order."""
        await prepare(self._side, self._scenario)
        answers: list[Answer] = []
        if not self._scenario.hooks:
            await self._run(self._scenario.steps, answers)
            return answers
        async with serving(self._scenario.hooks) as hooks:
            self._values |= {"hooks": hooks.url, "bundle": hooks.bundle}
            self._reviews = hooks.reviews
            await self._run(self._scenario.steps, answers)
        return answers

    async def _run(self, steps: Sequence[Step], answers: list[Answer]) -> None:
        for step in steps:
            if step.verb == "REVIEWS":
                seen = self._seen(in_order=step.path == "in order")
                answers.append({"step": str(step), "status": 200, "reviews": seen})
            elif step.verb in ("LATER", "RESTART"):
                await (self._side.later() if step.verb == "LATER" else self._side.restart())
                answers.append({"step": str(step), "status": 200})
            elif step.verb == "WATCH":
                await self._watch(step, answers)
            elif step.verb == "WAIT" or step.status is not None or step.until:
                answers.append(await self._wait(step))
            else:
                answer = await self._ask(step)
                answers.append(answer)
                if self._scenario.hooks:
                    await self._settle(step, answer)

    async def _settle(self, step: Step, answer: Answer) -> None:
        """Wait until the server's watch cache holds what a step wrote.

        The real server begins an update with the object of its cache, asks the webhooks, and asks them again if etcd
        holds a newer one. A read that names a version waits for the cache:
        https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions
        """
        written = _at(answer.get("body"), "metadata.resourceVersion", None)
        if step.verb == "GET" or answer["status"] >= 300 or not written:
            return
        request = self._request(step)
        path = f"{request.path}/{_at(answer['body'], 'metadata.name', '')}" if step.verb == "POST" else request.path
        read = Request("GET", path, {"resourceVersion": str(written)}, {"User-Agent": AGENT})
        async with asyncio.timeout(WAIT_SECONDS):
            # 504 says that the cache was behind for three seconds.
            while (await self._side.transport().send(read)).status == 504:
                pass

    def _seen(self, *, in_order: bool) -> list[dict[str, Any]]:
        """What the webhooks were asked; validating ones are asked all at once, so they have no order."""
        seen = list(self._reviews) if in_order else sorted(self._reviews, key=lambda review: str(review["hook"]))
        self._reviews.clear()
        return seen

    async def _ask(self, step: Step) -> Answer:
        got = await self._side.transport(self._token(step)).send(self._request(step))
        answer: Answer = {"step": str(step), "status": got.status, **_content(got.headers, got.body)}
        if got.warnings:
            answer["warnings"] = list(got.warnings)
        if "retry-after" in got.headers:
            answer["retryAfter"] = got.headers["retry-after"]
        for name, path in step.capture.items():
            self._values[name] = str(self._value(answer.get("body"), path, answer))
        return answer

    async def _wait(self, step: Step) -> Answer:
        def arrived(answer: Answer) -> bool:
            return self._arrived(step, answer)

        return await eventually(
            lambda: self._ask(step), arrived, seconds=WAIT_SECONDS, what=f"{step}: {dict(step.until)}"
        )

    def _arrived(self, step: Step, answer: Answer) -> bool:
        if step.gone or step.status is not None:
            return bool(answer["status"] == (step.status or 404))
        missing = object()
        wanted = {path: self._filled(one) if isinstance(one, str) else one for path, one in step.until.items()}
        return all(_at(answer.get("body"), path, missing) == value for path, value in wanted.items())

    async def _watch(self, step: Step, answers: list[Answer]) -> None:
        request = self._request(step)
        request.method, request.timeout = "GET", None
        request.query = {"watch": "true", **request.query}
        made: Answer = {"step": str(step)}
        answers.append(made)
        async with self._side.transport(self._token(step)).open(request) as stream:
            made["status"] = stream.status
            if stream.status != 200:
                made.update(_content(stream.headers, await stream.read()))
                await self._run(step.during, answers)
                return
            made["type"] = stream.headers.get("content-type", "")
            frames: list[Any] = []
            reading = asyncio.create_task(_read(stream, frames, step.frames))
            try:
                await self._run(step.during, answers)
                done, _ = await asyncio.wait({reading}, timeout=step.seconds)
                if done:
                    made["ended"] = await reading
            finally:
                reading.cancel()
                await asyncio.wait({reading})
        made["frames"] = frames

    def _token(self, step: Step) -> str | None:
        return None if step.token is None else self._filled(step.token)

    def _request(self, step: Step) -> Request:
        headers = {"User-Agent": AGENT, "Accept": "application/json"}
        body = None
        if step.text is not None:
            body = self._filled(step.text).encode()
        elif step.body is not None:
            body = json.dumps(self._all_filled(step.body)).encode()
        if body is not None:
            headers["Content-Type"] = PATCHES.get(step.verb, "application/json")
        headers |= {name: self._filled(value) for name, value in step.headers.items()}
        return Request(
            "PATCH" if step.verb in PATCHES else "GET" if step.verb == "WAIT" else step.verb,
            _path(self._filled(step.path), self._scenario.namespace),
            {name: self._filled(str(value)) for name, value in step.query.items()},
            headers,
            body,
        )

    def _value(self, body: Any, path: str, answer: Answer) -> Any:
        missing = object()
        found = _at(body, path, missing)
        if found is missing:
            raise ScenarioError(f"{answer['step']}: the answer has no {path}: {answer}")
        return found

    def _all_filled(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._filled(value)
        if isinstance(value, list):
            return [self._all_filled(inner) for inner in value]
        if isinstance(value, dict):
            return {self._filled(key): self._all_filled(inner) for key, inner in value.items()}
        return value

    def _filled(self, text: str) -> str:
        def fill(match: re.Match[str]) -> str:
            if match["times"]:
                return str(match["text"]) * int(match["times"])
            value = self._values[match["name"]]
            return str(int(value) + int(match["plus"])) if match["plus"] else value

        return _HOLE.sub(fill, text)


def _path(path: str, namespace: str) -> str:
    version, tilde, rest = path.partition("~")
    if path.startswith("/") or not tilde:
        return path
    return f"{'/api/v1' if not version else f'/apis/{version}'}/namespaces/{namespace}{rest}"


def _content(headers: Mapping[str, str], body: bytes) -> Answer:
    kind = headers.get("content-type", "")
    if "json" in kind:
        return {"type": kind, "body": json.loads(body)}
    if "yaml" in kind:
        return {"type": kind, "body": yaml.safe_load(body)}
    return {"type": kind, "text": body.decode()}


async def _read(stream: Stream, frames: list[Any], wanted: int) -> bool:
    """Read events; whether the stream ended before there were as many as wanted."""
    rest = b""
    async for chunk in stream.chunks():
        rest += chunk
        *lines, rest = rest.split(b"\n")
        frames += [json.loads(line) for line in lines if line]
        if len(frames) >= wanted:
            del frames[wanted:]
            return False
    if rest.strip():
        frames.append(json.loads(rest))
    return True


def _at(value: Any, path: str, missing: Any) -> Any:
    """A value by its dotted path; `[type=Ready]` finds an item of a list."""
    for part in path.split("."):
        if isinstance(value, list) and "=" in part:
            key, _, wanted = part.strip("[]").partition("=")
            value = next((item for item in value if str(item.get(key)) == wanted), missing)
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            return missing
    return value
