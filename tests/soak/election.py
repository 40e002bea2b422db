# SPDX-License-Identifier: Apache-2.0
"""Soak of leader election with the durations of production (15/10/2 s), with counts.

The leader is stopped for 20 s and for 12.5 s, cut off from the API server; and the API server crashes under both
replicas. A leader that is killed is in each simulated world with several replicas (`make soak SOAK_ARGS=simulation`).
Each round has a fresh Lease and two replicas that write as fast as they can. Printed per kind of fault:
rounds, writes seen, rounds in which two replicas wrote in turns, and the time from the last renewal of the old leader
to the first write of the new. Exit code 1 if there ever were two writers, or a takeover took longer than the lease
duration plus two retry periods with jitter and the second that the first write may need.
"""

import argparse
import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import urlsplit

from tests.integration.runtime.elections import Election, Wire
from trainwright.controller.runtime.leaderelection.fence import Timing
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.waiting import at_least, eventually

STOPPED_SECONDS = 20.0
FIRST_WRITE_SECONDS = 1.0

Fault: TypeAlias = Callable[[Election, str, str, Wire], Awaitable[None]]


async def stop_and_continue(election: Election, old: str, new: str, _: Wire) -> None:
    """The leader stands still for longer than its lease and goes on as if nothing had been."""
    await stand_still(election, old, new, STOPPED_SECONDS)


async def pause(election: Election, old: str, new: str, _: Wire) -> None:
    """The leader stands still until it may write no more, and goes on while nobody else may."""
    await stand_still(election, old, new, (election.timing.renew + election.timing.lease) / 2)


async def stand_still(election: Election, old: str, new: str, seconds: float) -> None:
    """SIGSTOP, SIGCONT, and what comes of it."""
    component = election.control_plane.components[old]
    pid = component.program_pid
    os.kill(pid, signal.SIGSTOP)
    await asyncio.sleep(seconds)
    with suppress(ProcessLookupError):  # the kernel has ended it, stopped as it was
        os.kill(pid, signal.SIGCONT)
    await eventually(lambda: not component.running, what="the old leader ends")
    await election.wait_writes(new, more=20)


async def cut(election: Election, old: str, new: str, wire: Wire) -> None:
    """The leader cannot reach the API server any more."""
    wire.cut()
    component = election.control_plane.components[old]
    await election.wait_writes(new, more=20)
    await eventually(lambda: not component.running, what="the old leader ends")


async def crash(election: Election, old: str, _: str, __: Wire) -> None:
    """The API server dies under both and comes back; the leader may keep the lease."""
    await asyncio.to_thread(election.control_plane.restart, "kube-apiserver", kill=True)
    before = sum(1 for _ in election.writes())
    await eventually(lambda: sum(1 for _ in election.writes()), at_least(before + 21), what=f"{old} or another writes")


FAULTS: dict[str, Fault] = {"stop": stop_and_continue, "pause": pause, "cut": cut, "crash": crash}


@dataclass
class Tally:
    """What the rounds of one fault came to."""

    rounds: int = 0
    writes: int = 0
    double: int = 0
    gaps: list[float] = field(default_factory=list)

    def line(self, name: str) -> str:
        """One line of the report."""
        gaps = f"{min(self.gaps):.1f} to {max(self.gaps):.1f} s" if self.gaps else "-"
        return f"{name:5} rounds {self.rounds:3}  writes {self.writes:6}  two writers {self.double}  takeover {gaps}"


async def one_round(plane: ControlPlane, name: str, tally: Tally, timing: Timing) -> None:
    """Fresh Lease, two replicas, one fault."""
    election = Election(plane, plane.create_namespace("soak"), timing)
    old, new = f"old-{election.namespace}", f"new-{election.namespace}"
    port = urlsplit(plane.url).port
    assert port is not None
    async with AsyncExitStack() as stack:
        wire = await stack.enter_async_context(Wire(port).running())
        server = f"https://127.0.0.1:{wire.port}"
        kubeconfig = plane.users.kubeconfig_with_token(old, plane.token, server=server)
        try:
            election.start(old, kubeconfig=kubeconfig)
            await election.wait_writes(old, more=20)
            election.start(new)
            await election.wait_stands(new)
            await FAULTS[name](election, old, new, wire)
        finally:
            for replica in {old, new} & set(plane.components):
                plane.stop_program(replica, kill=True)
    tally.rounds += 1
    tally.writes += sum(1 for _ in election.writes())
    turns = election.turns()
    tally.double += len(turns) != len(set(turns)) or turns[0] != old
    if new in turns:
        tally.gaps.append(election.gap(old, new))


async def soak(rounds: int, faults: list[str], timing: Timing) -> int:
    """The faults, `rounds` times."""
    tallies = {name: Tally() for name in faults}
    with ControlPlane(audit=True) as plane:
        for _ in range(rounds):
            for name, tally in tallies.items():
                await one_round(plane, name, tally, timing)
                print(tally.line(name), flush=True)
    bound = timing.takeover + FIRST_WRITE_SECONDS
    print(f"takeover may take {timing.takeover:.1f} s from the last renewal, and the first write {bound:.1f} s")
    bad = sum(tally.double for tally in tallies.values())
    late = sum(gap > bound for tally in tallies.values() for gap in tally.gaps)
    early = sum(gap < timing.lease for tally in tallies.values() for gap in tally.gaps)
    print(f"two writers: {bad}; late takeovers: {late}; early takeovers: {early}")
    return 1 if bad or late or early else 0


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="rounds of each fault (default: 10)")
    parser.add_argument("--fault", action="append", choices=FAULTS, help="only this one (may be repeated)")
    arguments = parser.parse_args()
    return asyncio.run(soak(arguments.rounds, arguments.fault or list(FAULTS), Timing()))


if __name__ == "__main__":
    raise SystemExit(main())
