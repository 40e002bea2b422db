# SPDX-License-Identifier: Apache-2.0
"""Soak of the local cluster: its process is killed with SIGKILL in the middle of jobs, and started again.

Each round submits three jobs, kills the cluster at another moment of their lives, and starts it again:

- one whose processes succeed, which has to be Complete, with the rest of the same pods or with new ones;
- one whose processes fail, without restarts, which has to be Failed;
- one whose processes ignore SIGTERM and detach themselves, which is deleted in the end.

After the kill no process of a pod is left, nor one that guards a pod. In every fourth round the guards are killed as
well. After the deletion of the jobs nothing of them is left, neither processes nor folders. Rounds take turns in the
two modes of isolation. Printed for each round: the moment, and what is wrong. Exit code 1 if anything is.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from trainwright.api.objects import Document
from trainwright.api.trainer.v1alpha1 import TrainingRuntime, TrainJob
from trainwright.controller.cli import state
from trainwright.controller.local.node.hosting import probe
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.runtime.errors import NotFound
from trainwright.controller.runtime.testing.waiting import GaveUp, equals, eventually, is_empty
from trainwright.plugins.testing import replicated_job, runtime_document

COMMAND = (sys.executable, "-m", "trainwright.controller.cli.main", "local", "up", "--foreground")
MOMENTS = 20
LONGEST_SECONDS = 3.0
"""From the submission: by then the processes that succeed have ended, unless the machine is slow."""
MARK = "TRAINWRIGHT_SOAK"
LEFT_SECONDS = 30.0
"""Guards give 5 s of grace when the cluster has died."""
END_SECONDS = 180.0
"""A Job makes a new pod 10 s after one was lost."""
_SUCCEED = "import time; time.sleep(1)"
_FAIL = "import time; time.sleep(1); raise SystemExit(3)"
_STAY = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    os.fork()
time.sleep(600)
"""
JOBS = {"succeeds": (_SUCCEED, "Complete"), "fails": (_FAIL, "Failed"), "stays": (_STAY, "")}


def runtime() -> Document:
    """Of all jobs: a failure is final, a lost pod of a job that succeeds is not, and the grace is short."""
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 2,
        "containers": [{"name": "node", "image": "python:3"}],
    }
    # A pod that was lost with the cluster was killed (137): that is no failure of the program.
    lost = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [137]}}
    node = replicated_job(pod=pod, backoffLimit=0, podFailurePolicy={"rules": [lost]})
    return runtime_document("soak", node, policy={"numNodes": 2})


def job(name: str, program: str, mark: str) -> Document:
    """A TrainJob of two nodes."""
    return {
        "apiVersion": TrainJob.RESOURCE.api_version,
        "kind": TrainJob.RESOURCE.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "runtimeRef": {"name": "soak", "kind": TrainingRuntime.RESOURCE.kind},
            "trainer": {"command": ["python", "-c", program], "env": [{"name": MARK, "value": mark}]},
        },
    }


# ---------------------------------------------------------------------- processes


def marked(mark: str) -> list[int]:
    """The processes of the pods of a round, also those that detached."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for pid in _processes():
        with contextlib.suppress(OSError):
            if wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") and not _has_ended(pid):
                found.append(pid)
    return found


def below(root: int) -> list[tuple[int, str]]:
    """Everything that a process started, each with its start time."""
    children: dict[int, list[tuple[int, str]]] = {}
    for pid in _processes():
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            children.setdefault(int(fields[1]), []).append((pid, fields[19].decode()))
    found: list[tuple[int, str]] = []
    queue = [root]
    while queue:
        more = children.get(queue.pop(), [])
        found += more
        queue += [pid for pid, _ in more]
    return found


def living(known: list[tuple[int, str]]) -> list[int]:
    """Those of the processes that have not ended."""
    found = []
    for pid, started in known:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            if fields[19].decode() == started and fields[0] not in (b"Z", b"X"):
                found.append(pid)
    return found


def _processes() -> Iterator[int]:
    return (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())


def _has_ended(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] in (b"Z", b"X")


def kill_guards(known: list[tuple[int, str]]) -> None:
    """SIGKILL to those that guard a container."""
    for pid in living(known):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"guard.py" in words or b"spawner.py" in words:
                os.kill(pid, signal.SIGKILL)


def commands_of(pids: list[int]) -> str:
    """For reports."""
    words = []
    for pid in pids:
        with contextlib.suppress(OSError):
            words.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:80])
    return ", ".join(words)


# ---------------------------------------------------------------------- rounds


def start(folder: Path, isolation: str) -> "subprocess.Popen[bytes]":
    """A cluster that is ready."""
    with (folder / "cluster.log").open("ab") as log:
        process = subprocess.Popen(
            [*COMMAND, f"--dir={folder}", f"--isolation={isolation}", "--capacity=cpu=64,memory=64Gi"],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    deadline = time.monotonic() + 60
    while (found := state.running(folder)) is None or found.pid != process.pid:
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the cluster did not start: {(folder / 'cluster.log').read_text()[-2000:]}")
        time.sleep(0.02)
    return process


async def submit(folder: Path, mark: str) -> None:
    """Create the jobs of a round."""
    client = Client(HTTPTransport(load_config(folder / "kubeconfig")), user_agent="soak")
    try:
        await client.apply(runtime(), kind=TrainingRuntime.RESOURCE, field_manager="soak")
        for name, (program, _) in JOBS.items():
            await client.create(job(f"{name}-{mark}", program, mark), kind=TrainJob.RESOURCE)
    finally:
        await client.close()


async def finish(folder: Path, mark: str) -> list[str]:
    """Wait for the ends of the jobs, and delete them; gives what is wrong."""
    wrong: list[str] = []
    client = Client(HTTPTransport(load_config(folder / "kubeconfig")), user_agent="soak")

    async def end_of(name: str) -> str:
        found = await client.get(TrainJob.RESOURCE, name, "default")
        conditions = (found.get("status") or {}).get("conditions") or ()
        return next(
            (c["type"] for c in conditions if c["type"] in ("Complete", "Failed") and c["status"] == "True"), ""
        )

    async def is_gone(name: str) -> bool:
        try:
            await client.get(TrainJob.RESOURCE, name, "default")
        except NotFound:
            return True
        return False

    try:
        for name, (_, end) in JOBS.items():
            whole = f"{name}-{mark}"
            if end:
                try:
                    await eventually(partial(end_of, whole), equals(end), seconds=END_SECONDS)
                except GaveUp as error:
                    wrong.append(f"{whole} is not {end}: {error}")
            elif found := await end_of(whole):
                wrong.append(f"{whole} is {found}")
            await client.delete(TrainJob.RESOURCE, whole, "default", propagation="Foreground")
        for name in JOBS:
            try:
                await eventually(partial(is_gone, f"{name}-{mark}"), equals(True), seconds=60)
            except GaveUp:
                wrong.append(f"{name}-{mark} was deleted and is still there")
    finally:
        await client.close()
    return wrong


async def live(folder: Path, number: int, moment: float) -> list[str]:
    """One round; gives what is wrong."""
    isolation = ("rewrite", "auto")[number % 2]
    mark = f"{number}-{os.getpid()}"
    wrong: list[str] = []
    cluster = start(folder, isolation)
    await submit(folder, mark)
    await asyncio.sleep(moment)
    known = below(cluster.pid)
    cluster.kill()
    cluster.wait()
    if number % 4 == 3:
        kill_guards(known)
    try:
        await eventually(lambda: [*living(known), *marked(mark)], is_empty, seconds=LEFT_SECONDS)
    except GaveUp:
        wrong.append(f"processes are left after the kill: {commands_of([*living(known), *marked(mark)])}")
    cluster = start(folder, isolation)
    wrong += await finish(folder, mark)
    try:
        await eventually(lambda: marked(mark), is_empty, seconds=LEFT_SECONDS)
    except GaveUp:
        wrong.append(f"processes are left after the deletion: {commands_of(marked(mark))}")
    cluster.terminate()
    if (code := cluster.wait(timeout=60)) != 0:
        wrong.append(f"the cluster ended with exit code {code}")
    if left := [path.name for path in (folder / "pods").iterdir()]:
        wrong.append(f"folders of pods are left: {', '.join(left)}")
    return wrong


def soak(rounds: int) -> list[str]:
    """Go through the rounds; gives what is wrong."""
    found: list[str] = []
    with tempfile.TemporaryDirectory(prefix="trainwright-outages-") as made:
        folder = Path(made)
        for number in range(rounds):
            moment = LONGEST_SECONDS * (number * 7 % MOMENTS) / MOMENTS
            wrong = asyncio.run(live(folder, number, moment))
            found += wrong
            print(json.dumps({"round": number + 1, "killed after": round(moment, 2), "wrong": wrong}), flush=True)
            if wrong:
                print((folder / "cluster.log").read_text(errors="replace")[-4000:], flush=True)
    return found


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=MOMENTS, help="kills of a cluster (default: %(default)s)")
    arguments = parser.parse_args()
    print(f"isolation: {probe() or 'namespaces work here'}", flush=True)
    wrong = soak(arguments.rounds)
    print(f"kills: {arguments.rounds}; wrong: {len(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
