# SPDX-License-Identifier: Apache-2.0
"""Which rank failed first below torchrun, and how: jobs of two and four ranks on a local cluster, under an attacker.

Each round is a job with one retry, so with two attempts. Its ranks are pods with one process each, or processes of two
pods. In each attempt, at a moment of chance, one process that trains is killed, raises an exception or ends with an
exit code. The record must have pod, rank, exit code and cause of each attempt, as this program did it.
`TRAINWRIGHT_TORCH` names a Python with PyTorch.
"""

import argparse
import asyncio
import os
import random
import re
import signal
import tempfile
from pathlib import Path

from tests.integration.local.node.recovering import end_of, record_of
from trainwright.api.trainer.v1alpha1 import TrainingRuntime, TrainJob
from trainwright.controller.cli.local.training import training_cluster
from trainwright.controller.local.node.settings import Isolation, NodeSettings
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.testing.waiting import GaveUp, eventually
from trainwright.controller.trainer.failures.record import Entry
from trainwright.plugins.testing import replicated_job, runtime_document

SHAPES = ((2, 1), (4, 1), (2, 2))
"""Pods, and processes of training in each."""
KILL, RAISE, EXIT = "kill", "raise", "exit"
ENDS = {KILL: "-9", RAISE: "1", EXIT: "42"}
ATTEMPTS = 2
PATIENCE = 400.0
PROGRAM = """
import os, pathlib, sys, time
import torch, torch.distributed as dist
marks, rank = pathlib.Path(os.environ["MARKS"]), int(os.environ["RANK"])
def obey():
    if (marks / f"raise-{rank}").exists():
        raise ValueError(f"the data of rank {rank} is broken")
    if (marks / f"exit-{rank}").exists():
        sys.exit(42)
dist.init_process_group("gloo")
(marks / f"joined-{rank}").write_text(str(os.getpid()))
weights = torch.zeros(1000)
while True:
    obey()
    dist.all_reduce(weights)
    time.sleep(0.01)
"""


async def attack(marks: Path, ranks: int, chance: random.Random) -> tuple[str, int]:
    """End one rank of the attempt that begins; gives what was done to which."""
    joined = [marks / f"joined-{rank}" for rank in range(ranks)]

    def have_joined() -> bool:
        return all(file.exists() and file.read_text() for file in joined)

    await eventually(have_joined, seconds=PATIENCE, what="the ranks of the next attempt")
    await asyncio.sleep(chance.uniform(0, 3))
    act, rank = chance.choice(sorted(ENDS)), chance.randrange(ranks)
    print(f"    {act} rank {rank} of {ranks}", flush=True)
    pid = int(joined[rank].read_text())
    for file in joined:
        file.unlink()
    order = marks / f"{act}-{rank}"
    if act == KILL:
        os.kill(pid, signal.SIGKILL)
    else:
        order.touch()
        await eventually(lambda: not Path(f"/proc/{pid}").exists(), seconds=PATIENCE, what=f"the end of rank {rank}")
        order.unlink()
    return act, rank


async def job(client: Client, folder: Path, name: str, chance: random.Random) -> list[str]:
    """One round; gives what is wrong."""
    nodes, processes = chance.choice(SHAPES)
    marks = folder / name
    marks.mkdir()
    script = folder / "train.py"
    script.write_text(PROGRAM)
    # torchrun 1.13 fails under Python 3.11 with its defaults of both: they concern a process that there is not.
    env = {"MARKS": str(marks), "PET_REDIRECTS": f"{processes}:1", "PET_TEE": f"{processes}:1"}
    trainer = {
        "numNodes": nodes,
        "numProcPerNode": processes,
        "command": [os.environ["TRAINWRIGHT_TORCH"], "-m", "torch.distributed.run", str(script)],
        "env": [{"name": key, "value": value} for key, value in env.items()],
    }
    await client.create(
        {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": {
                "name": name,
                "namespace": "default",
                "annotations": {"trainwright.dev/recovery": "gang", "trainwright.dev/retries": str(ATTEMPTS - 1)},
            },
            "spec": {"runtimeRef": {"kind": "TrainingRuntime", "name": "plain"}, "trainer": trainer},
        },
        kind=TrainJob.RESOURCE,
    )
    done = [await attack(marks, nodes * processes, chance) for _ in range(ATTEMPTS)]
    end = await end_of(client, name, seconds=PATIENCE)
    wrong = faults(done, processes, await record_of(client, name))
    await client.delete(TrainJob, name, "default")
    return wrong if end == "Failed" else [*wrong, f"the job is {end}"]


def faults(done: list[tuple[str, int]], processes: int, entries: dict[int, Entry]) -> list[str]:
    """What the record says otherwise than it was."""
    wrong = [] if len(entries) == len(done) else [f"{len(done)} attempts, and the record has {list(entries)}"]
    for number in entries.keys() & set(range(len(done))):
        (act, rank), entry = done[number], entries[number]
        # Of two processes that an exception has ended, torchrun 1.13 does not say which of them wrote what.
        names = rf"local rank {rank % processes}|rank {rank}|one of ranks [\d, ]*\b{rank}\b[\d, ]*"
        is_right = re.search(rf"(?:{names}), exit code {ENDS[act]}\b", entry.said) is not None
        is_right = is_right and (act != RAISE or f"the data of rank {rank} is broken" in entry.said)
        found = f"{entry.cause}, pod {entry.rank}, {entry.said}"
        print(f"    {number + 1}: {found}", flush=True)
        if not is_right or (entry.rank, entry.cause, entry.provisional) != (rank // processes, "Code", False):
            wrong.append(f"attempt {number + 1}: {act} of rank {rank}, and the record has {found}")
    return wrong


async def run(rounds: int, seed: int) -> int:
    """So many jobs; gives how many were wrong."""
    bad = 0
    with tempfile.TemporaryDirectory(prefix="soak-blame-") as name:
        folder = Path(name)
        settings = NodeSettings(
            name="laptop", folder=folder / "state", isolation=Isolation.REWRITE, capacity={"cpu": "64"}
        )
        async with training_cluster(settings) as cluster:
            client = Client(cluster.api.transport(), user_agent="soak")
            pod = {"terminationGracePeriodSeconds": 5, "containers": [{"name": "node", "image": "python"}]}
            runtime = runtime_document("plain", replicated_job(pod=pod), policy={"numNodes": 2, "torch": {}})
            await client.create(runtime, kind=TrainingRuntime.RESOURCE)
            for number in range(seed, seed + rounds):
                print(f"  --seed {number} --rounds 1", flush=True)
                try:
                    wrong = await job(client, folder, f"job-{number}", random.Random(number))
                except GaveUp as error:
                    wrong = [str(error)]
                bad += bool(wrong)
                for fault in wrong:
                    print(f"  WRONG: {fault}", flush=True)
    return bad


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="jobs, one after the other (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=None, help="of the attacker (default: by chance)")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(10**6)
    bad = asyncio.run(run(arguments.rounds, seed))
    print(f"blame: {arguments.rounds} jobs; with another rank or cause on record: {bad}")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
