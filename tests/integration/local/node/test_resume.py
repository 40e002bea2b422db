# SPDX-License-Identifier: Apache-2.0
"""Sample 13 under a killer: whatever ends its ranks, and whenever, the model at the end is that of a calm run."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.local.node.recovering import begin, end_of, pid, record_of
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.objects import labels_of, name_of
from trainwright.controller.cli.local.training import training_cluster
from trainwright.controller.local.node.settings import Isolation, NodeSettings
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.testing.waiting import eventually

PROGRAM = """
import asyncio, sys
from pathlib import Path
from trainwright.controller.cli.local.training import training_cluster
from trainwright.controller.local.node.settings import Isolation, NodeSettings

async def main():
    async with training_cluster(NodeSettings(name="laptop", folder=Path(sys.argv[1]), isolation=Isolation.REWRITE)):
        await asyncio.Event().wait()

asyncio.run(main())
"""


def started(folder: Path) -> "subprocess.Popen[bytes]":
    """A cluster in a process of its own."""
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder)])


async def step_of(folder: Path, least: int) -> None:
    """Wait until a checkpoint of at least this step is there."""

    def reached() -> bool:
        latest = next(folder.glob("**/killed-*/latest"), None)
        return latest is not None and json.loads(latest.read_text())["step"] >= least

    # Folders of checkpoints go while one looks.
    await eventually(reached, what=f"a checkpoint of step {least}", ignore=(FileNotFoundError,))


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Where a calm job and a killed one leave what a test looks at."""
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    calm.mkdir()
    killed.mkdir()
    return calm, killed


async def test_the_model_is_that_of_a_calm_run(trainer: Client, folders: tuple[Path, Path], tmp_path: Path) -> None:
    """Scenarios 15 and 23: kills and a deletion at random moments; two jobs share one claim."""
    chance, client = random.Random(13), trainer
    calm, killed = folders
    await begin(client, calm, "calm")
    assert (await end_of(client, "calm"))[0] == "Complete"
    # Each attempt stands still some steps after the one that is waited for, so that it has not ended before its kill.
    await begin(client, killed, "killed", stands_after=(15, 15, 15))
    victims = []
    for attempt in (1, 2, 3):
        victims.append(chance.randrange(2))
        processes = [await pid(killed, attempt, rank) for rank in range(2)]
        await step_of(tmp_path, 10 * attempt)
        if attempt == 2:
            pods = (await client.list(Pod, "default")).items
            (pod,) = (
                one
                for one in pods
                if name_of(one).startswith(f"killed-node-0-{victims[-1]}")
                and labels_of(one)["jobset.sigs.k8s.io/restart-attempt"] == str(attempt - 1)
            )
            await client.delete(Pod, name_of(pod), "default")
        else:
            os.kill(processes[victims[-1]], signal.SIGKILL)
        await pid(killed, attempt + 1, 0)
    assert (await end_of(client, "killed"))[0] == "Complete"
    assert (killed / "model").read_text() == (calm / "model").read_text()
    entries = await record_of(client, "killed")
    assert [entry.cause for entry in entries.values()] == ["Code", "Infrastructure", "Code"]
    assert [(entries[0].rank, entries[0].exit_code), (entries[2].rank, entries[2].exit_code)] == [
        (victims[0], 137),
        (victims[2], 137),
    ]


async def test_a_training_goes_on_after_the_cluster_was_down(folders: tuple[Path, Path], tmp_path: Path) -> None:
    """Scenario 57: `down` and `up` in the middle of a training begin its second attempt, at the last checkpoint."""
    calm, killed = folders
    settings = NodeSettings(name="laptop", folder=tmp_path / "state", isolation=Isolation.REWRITE)
    async with training_cluster(settings) as cluster:
        client = Client(cluster.api.transport())
        await begin(client, calm, "calm", pause=0)
        assert (await end_of(client, "calm"))[0] == "Complete"
        # It stands still at a step, so that it has not ended by the time that this test, or the cluster, gets on.
        await begin(client, killed, "killed", stands_after=(15,))
        await step_of(tmp_path, 10)
    async with training_cluster(settings) as cluster:
        client = Client(cluster.api.transport())
        assert (await end_of(client, "killed"))[0] == "Complete"
        (entry,) = (await record_of(client, "killed")).values()
    assert entry.cause == "Infrastructure"
    assert sorted(path.name for path in killed.iterdir()) == ["1-0", "1-1", "2-0", "2-1", "model"]
    assert (killed / "model").read_text() == (calm / "model").read_text()


async def test_a_cluster_that_was_killed_costs_one_attempt_and_no_retry(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    """Again and again without a further checkpoint: the node knows that it was away, so there is no pause, either."""
    _, killed = folders
    settings = NodeSettings(name="laptop", folder=tmp_path / "state", isolation=Isolation.REWRITE)
    async with training_cluster(settings) as cluster:
        client = Client(cluster.api.transport())
        await begin(client, killed, "killed", stands_after=(2, 2, 2), retries="0")
        await pid(killed, 1, 0)
    for attempt in (2, 3):
        with started(settings.folder) as crashing:
            for rank in range(2):
                await pid(killed, attempt, rank)
            crashing.kill()
    async with training_cluster(settings) as cluster:
        client = Client(cluster.api.transport())
        assert (await end_of(client, "killed"))[0] == "Complete"
        entries = (await record_of(client, "killed")).values()
    assert [(entry.cause, entry.held_seconds) for entry in entries] == [("Infrastructure", 0)] * 3
    assert [entry.message for entry in entries][1:] == ["rank 0: NodeRestarted"] * 2
