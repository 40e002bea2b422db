# SPDX-License-Identifier: Apache-2.0
"""Writes that are sent late."""

import asyncio
import random
from typing import cast

import pytest

from trainwright.controller.local.apiserver.http.transport import InProcessTransport
from trainwright.controller.runtime import Request, RequestTimeout, Response
from trainwright.controller.simulation.determinism import Trace
from trainwright.controller.simulation.loop import SimulatedLoop
from trainwright.controller.simulation.network import FaultProfile, Hooks, Network

LIMIT = 12.0


class Server:
    """Carries out everything at once."""

    def __init__(self) -> None:
        self.met: list[float] = []

    async def send(self, request: Request) -> Response:  # noqa: ARG002 - the interface's
        self.met.append(asyncio.get_running_loop().time())
        return Response(200, {}, b"{}")


async def sent(seed: int, faults: FaultProfile) -> tuple[float, bool, float]:
    """When the server met a write, whether that was answered, and when the caller knew. -1: it never met one."""
    server, trace = Server(), Trace()
    network = Network(
        cast("InProcessTransport", server),
        "client",
        faults,
        trace,
        random.Random(seed),
        Hooks(),
    )
    begun = asyncio.get_running_loop().time()
    try:
        await network.send(Request("PATCH", "/api/v1/nodes/a", timeout=LIMIT))
        answered = True
    except RequestTimeout:
        answered = False
    met = server.met[0] - begun if server.met else -1.0
    return met, answered, asyncio.get_running_loop().time() - begun


def test_a_slow_write_is_sent_within_its_limit_or_never() -> None:
    async def every() -> list[tuple[float, bool, float]]:
        return [await sent(seed, FaultProfile(slow_request=1.0)) for seed in range(60)]

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        found = runner.run(every())
    late = [one for one in found if one[1]]
    never = [one for one in found if not one[1]]
    assert late
    assert never
    assert all(0 < met < LIMIT + 0.1 for met, _, _ in late)
    assert all(met == -1.0 and known == pytest.approx(LIMIT, abs=0.1) for met, _, known in never)


def test_without_that_fault_a_write_is_sent_at_once() -> None:
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        met, answered, _ = runner.run(sent(1, FaultProfile()))
    assert answered
    assert 0 < met < 0.01
