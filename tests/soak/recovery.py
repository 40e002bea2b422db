# SPDX-License-Identifier: Apache-2.0
"""A job of four ranks on the local cluster under a killer: at the end, the model is that of a calm run.

Ranks are killed and stopped, pods are deleted, the manager is ended and started again, and so is the whole cluster, as
`trainwright local down` and `up` do. Each of these comes once all ranks run and a further checkpoint is written. The
record must have one line for each attempt that was ended, in order, with the cause and, where a process was killed, the
rank. A round is one job; exit code 1 if one ends otherwise.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TypeAlias

from tests.integration.local.node.recovering import begin, end_of, pid, record_of
from trainwright.api.jobset.v1alpha2.labels import LABEL_ATTEMPT, LABEL_INDEX
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.objects import deletion_timestamp_of, labels_of, name_of
from trainwright.controller.cli.local import training
from trainwright.controller.local.cluster import RunningCluster, local_cluster
from trainwright.controller.local.node.settings import Isolation, NodeSettings
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.testing.waiting import GaveUp, eventually
from trainwright.controller.trainer.failures.record import HEADS, Entry

RANKS, JOB, PAUSE = 4, "killed", 0.25
KILL, STOP, DELETE, MANAGER, CLUSTER = "kill", "stop", "delete", "manager", "down and up"
CAUSES = {KILL: "Code", STOP: "Hang", DELETE: "Infrastructure", CLUSTER: "Infrastructure"}
STALL_SECONDS = 120
"""The shortest one that the manager takes."""
PATIENCE = 400.0
"""For all ranks to run and write a checkpoint, at most: a hang and the longest pause without progress come before."""


Ended: TypeAlias = list[tuple[str, int]]
"""What ended each attempt, and which rank it was done to."""


class Laptop:
    """A cluster and its manager, which are ended and started again."""

    def __init__(self, folder: Path) -> None:
        self._settings = NodeSettings(name="laptop", folder=folder, isolation=Isolation.REWRITE)
        self._cluster: AsyncExitStack | None = None
        self._manager: AsyncExitStack | None = None
        self._running: RunningCluster | None = None

    @property
    def client(self) -> Client:
        """Of the cluster that runs."""
        assert self._running is not None
        return Client(self._running.api.transport(), user_agent="soak")

    async def up(self) -> None:
        """Start cluster and manager."""
        self._cluster = AsyncExitStack()
        self._running = await self._cluster.enter_async_context(local_cluster(self._settings))
        await training.install_definitions(self._running.api)
        await self.start_manager()

    async def down(self) -> None:
        """End both."""
        await self.stop_manager()
        if self._cluster is not None:
            await self._cluster.aclose()

    async def start_manager(self) -> None:
        """Start the manager."""
        assert self._running is not None
        self._manager = AsyncExitStack()
        await self._manager.enter_async_context(training.training_manager(self._running.api, self._settings.folder))

    async def stop_manager(self) -> None:
        """End it."""
        if self._manager is not None:
            await self._manager.aclose()


class Killer:
    """Ends attempts of one job, and knows what the record has to say of each."""

    def __init__(self, laptop: Laptop, folder: Path, marks: Path, chance: random.Random) -> None:
        self._laptop, self._folder, self._marks, self._chance = laptop, folder, marks, chance
        self.done: Ended = []
        self._plan: list[str] = []

    async def strike(self) -> None:
        """End the present attempt, or the manager, once all ranks run and have come further."""
        attempt = len(self.done) + 1
        for rank in range(RANKS):
            await pid(self._marks, attempt, rank, seconds=PATIENCE)
        await self._step_after(self._step())
        await asyncio.sleep(self._chance.uniform(0, 3))  # any moment between two checkpoints
        if not self._plan:
            self._plan = [KILL, KILL, DELETE, MANAGER, CLUSTER, STOP]
            self._chance.shuffle(self._plan)
        act, rank = self._plan.pop(), self._chance.randrange(RANKS)
        if self.is_over():
            return
        print(f"  attempt {attempt}, step {self._step()}: {act}, rank {rank}", flush=True)
        if act == MANAGER:
            await self._laptop.stop_manager()
            await asyncio.sleep(self._chance.uniform(0, 5))
            await self._laptop.start_manager()
            return
        self.done.append((act, rank))
        if act == CLUSTER:
            await self._laptop.down()
            await self._laptop.up()
        elif act == DELETE:
            await self._delete(rank)
        else:
            await self._signal(attempt, rank, signal.SIGSTOP if act == STOP else signal.SIGKILL)

    async def _signal(self, attempt: int, rank: int, number: signal.Signals) -> None:
        """Signal the present process of a rank.

        A hold comes only if no pod of the next attempt runs yet, as far as the manager sees; so it may still end ranks
        that have just begun, and after it the same attempt has other processes.
        """

        def signalled() -> bool:
            try:
                os.kill(int((self._marks / f"{attempt}-{rank}").read_text()), number)
            except ProcessLookupError:
                return self.is_over()
            return True

        try:
            await eventually(signalled, seconds=PATIENCE, what=f"rank {rank} of attempt {attempt}")
        except GaveUp as error:
            lines = [f"    {each + 1}: {entry}" for each, entry in (await record_of(self._laptop.client, JOB)).items()]
            raise GaveUp("\n".join([f"attempt {attempt} had ended by itself", *lines]), error.last) from None

    def is_over(self) -> bool:
        """Whether the training has come to its end."""
        return (self._marks / "model").exists()

    async def _delete(self, rank: int) -> None:
        client = self._laptop.client
        pods = [
            pod
            for pod in (await client.list(Pod, "default")).items
            if labels_of(pod).get(LABEL_INDEX) == str(rank) and deletion_timestamp_of(pod) is None
        ]
        latest = max(pods, key=lambda pod: int(labels_of(pod)[LABEL_ATTEMPT]))
        await client.delete(Pod, name_of(latest), "default")

    def _step(self) -> int:
        latest = next(self._folder.glob(f"**/{JOB}-*/latest"), None)
        return int(json.loads(latest.read_text())["step"]) if latest is not None else 0

    async def _step_after(self, before: int) -> None:
        def reached() -> bool:
            return self.is_over() or self._step() > before

        await eventually(reached, seconds=PATIENCE, what=f"a checkpoint after step {before}")


async def calm(folder: Path, steps: int) -> str:
    """The model of a run that nothing disturbs."""
    laptop, marks = Laptop(folder / "state"), folder / "marks"
    marks.mkdir(parents=True)
    await laptop.up()
    try:
        await begin(laptop.client, marks, "calm", ranks=RANKS, steps=steps, pause=0)
        await end_of(laptop.client, "calm", seconds=PATIENCE)
    finally:
        await laptop.down()
    return (marks / "model").read_text()


async def killed(folder: Path, steps: int, chance: random.Random) -> tuple[str, str, Ended, dict[int, Entry]]:
    """The end and the model of a job under the killer, what that did, and the record."""
    laptop, marks = Laptop(folder / "state"), folder / "marks"
    marks.mkdir(parents=True)
    await laptop.up()
    try:
        limits = {"retries": "100", "retries_infrastructure": "1000", "retries_hang": "1000"}
        stalls = {"on_stall": "restart", "progress_stall_after": f"{STALL_SECONDS}s"}
        annotations = {**limits, **stalls}
        await begin(laptop.client, marks, JOB, ranks=RANKS, steps=steps, pause=PAUSE, stands_after=(), **annotations)
        killer = Killer(laptop, folder / "state", marks, chance)
        while not killer.is_over():
            await killer.strike()
        end = await end_of(laptop.client, JOB, seconds=PATIENCE)
        return end, (marks / "model").read_text(), killer.done, await record_of(laptop.client, JOB)
    finally:
        await laptop.down()


def faults(done: Ended, entries: dict[int, Entry]) -> list[str]:
    """What the record says otherwise than it was."""
    wrong, numbers = [], range(len(done))
    # The record has the first one and the latest ones of many.
    kept = [*numbers[:1], *numbers[1:][-(HEADS - 1) :]]
    if list(entries) != kept:
        wrong.append(f"{len(done)} attempts were ended, and the record has {[number + 1 for number in entries]}")
    for number in set(kept) & entries.keys():
        (act, rank), entry = done[number], entries[number]
        if entry.cause != CAUSES[act]:
            wrong.append(f"attempt {number + 1}: {entry.cause} after {act} of rank {rank}: {entry.message}")
        elif act == KILL and (entry.rank, entry.exit_code) != (rank, 137):
            wrong.append(f"attempt {number + 1}: rank {entry.rank} ({entry.exit_code}), and rank {rank} was killed")
    return wrong


async def run(seconds: int, chance: random.Random) -> list[str]:
    """One round; gives what is wrong."""
    steps = int(seconds / PAUSE / 4)
    with tempfile.TemporaryDirectory(prefix="soak-recovery-") as name:
        model = await calm(Path(name) / "calm", steps)
        begun = time.monotonic()
        end, found, done, entries = await killed(Path(name) / "killed", steps, chance)
    counts = {act: sum(one == act for one, _ in done) for act in CAUSES}
    print(f"  {len(done)} attempts were ended ({counts}) in {time.monotonic() - begun:.0f} s", flush=True)
    for number, entry in entries.items():
        print(f"  {number + 1}: {entry.cause}, step {entry.step}, rank {entry.rank}, exit code {entry.exit_code}")
    wrong = faults(done, entries)
    if end != "Complete":
        wrong.append(f"the job is {end}")
    if found != model:
        wrong.append("the model is not that of a calm run")
    return wrong


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6, help="jobs, one after the other (default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=600, help="about so long each (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=None, help="of the killer (default: by chance)")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(10**6)
    bad = 0
    for number in range(1, arguments.rounds + 1):
        print(f"round {number}: --seed {seed + number - 1} --rounds 1", flush=True)
        try:
            wrong = asyncio.run(run(arguments.seconds, random.Random(seed + number - 1)))
        except GaveUp as error:
            wrong = [str(error)]
        bad += bool(wrong)
        for fault in wrong:
            print(f"  WRONG: {fault}", flush=True)
    print(f"recovery: {arguments.rounds} jobs; otherwise than in calm: {bad}")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
