# SPDX-License-Identifier: Apache-2.0
"""`trainwright.dev/recovery: gang` on the local cluster: real processes end, and rules restart all ranks."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.local.node.recovering import end_of, record_of, train, train_job
from trainwright.api.conditions import find
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import ConfigMap, Node
from trainwright.api.kubernetes.events.v1 import Event
from trainwright.api.trainer.v1alpha1 import TrainingRuntime, TrainJob, progress
from trainwright.api.trainer.v1alpha1.recovery import Allowed
from trainwright.controller.runtime import Client, NotFound
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.controller.trainer.failures.record import entries_of
from trainwright.controller.trainer.recovery.verdict import summary_of
from trainwright.controller.trainer.why import waiting
from trainwright.plugins.testing import replicated_job, runtime_document

PROGRAM = """
import os, pathlib, sys, time
folder, code, failures = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
rank = os.environ["PET_NODE_RANK"]
with open(folder / rank, "a") as runs:
    runs.write("x")
if len((folder / rank).read_text()) > failures:
    sys.exit(0)
others = [folder / str(other) for other in range(3) if str(other) != rank]
def runs_of(one):
    return len(one.read_text()) if one.exists() else 0
while rank == "1" and any(runs_of(one) < runs_of(folder / rank) for one in others):
    time.sleep(0.01)
if rank == "1":
    sys.exit(code)
time.sleep(300)
"""
"""Of three ranks, rank 1 fails in its first runs, once the others run too; they wait for it."""


@pytest.mark.parametrize(
    ("annotations", "code", "failures", "end", "runs", "counted"),
    [
        pytest.param({"retries": "2"}, 1, 1, ("Complete", ""), 2, 1, id="all-restart-when-one-fails"),
        pytest.param(
            {"retries": "2"}, 1, 9, ("Failed", "ReachedMaxRestarts"), 3, 2, id="it-gives-up-after-its-retries"
        ),
        pytest.param(
            {"retries": "0", "exit-codes": "75=free"}, 75, 1, ("Complete", ""), 2, 0, id="free-codes-cost-none"
        ),
        pytest.param({}, 127, 9, ("Failed", "FailJobSetFailurePolicyAction"), 1, 0, id="a-program-that-cannot-run"),
        pytest.param(
            {"exit-codes": "3=final"}, 3, 9, ("Failed", "FailJobSetFailurePolicyAction"), 1, 0, id="no-retry-code"
        ),
    ],
)
async def test_what_the_end_of_one_rank_leads_to(
    trainer: Client,
    tmp_path: Path,
    annotations: dict[str, str],
    code: int,
    failures: int,
    end: tuple[str, str],
    runs: int,
    counted: int,
) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    command = [sys.executable, "-c", PROGRAM, str(folder), str(code), str(failures)]
    await train(trainer, command, {"recovery": "gang", **annotations}, ranks=3)
    kind, reason = await end_of(trainer)
    assert (kind, reason if end[1] else "") == end
    # All ranks ran equally often.
    assert {path.name: len(path.read_text()) for path in folder.iterdir()} == dict.fromkeys("012", runs)
    jobset = await trainer.get(JobSet, "j", "default")
    assert jobset.status is not None
    assert (jobset.status.restarts or 0, jobset.status.restarts_count_towards_max or 0) == (runs - 1, counted)


async def test_the_same_failure_three_times_ends_the_job(trainer: Client) -> None:
    """Scenario 8: though it has ten retries. Its record has three attempts; what ran it is deleted."""
    words = "import os, sys; sys.exit(f'ValueError: bad shape {os.getpid()}')"
    await train(trainer, [sys.executable, "-c", words], {"recovery": "gang", "retries": "10"})
    assert await end_of(trainer) == ("Failed", "SameFailure")
    entries = await eventually(lambda: record_of(trainer), lambda found: len(found) == 3, what="three attempts")
    assert {(one.cause, one.charged) for one in entries.values()} == {("Code", "retries")}

    async def jobsets() -> int:
        return len((await trainer.list(JobSet, "default")).items)

    await eventually(jobsets, lambda number: number == 0, what="the end of the JobSet")


REPORTS = """
import datetime, json, os, pathlib, ssl, sys, urllib.request
runs = pathlib.Path(sys.argv[1], "runs")
with open(runs, "a") as file:
    file.write("x")
run = len(runs.read_text())
tls = ssl.create_default_context(cafile=os.environ["KUBEFLOW_TRAINER_SERVER_CA_CERT"])
token = pathlib.Path(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read_text()
for step in range(1, 9 if run == 1 else 1):
    at = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = {"metrics": [{"name": "current_step", "value": str(step)}], "lastUpdatedTime": at}
    data = json.dumps({"trainerStatus": status}).encode()
    headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json"}
    request = urllib.request.Request(os.environ["KUBEFLOW_TRAINER_SERVER_URL"], data, headers, method="POST")
    urllib.request.urlopen(request, context=tls).read()
sys.exit("ValueError: " + "abcdefgh"[run])
"""
"""The first run reports more often than is written at once, and fails; later ones report nothing."""


async def test_a_late_report_pays_for_no_other_attempt(trainer: Client, tmp_path: Path) -> None:
    """The job shows the last report of an attempt while the next one runs, which has made no progress by it."""
    command = [sys.executable, "-c", REPORTS, str(tmp_path)]
    await train(trainer, command, {"recovery": "gang", "retries": "1"})
    assert (await end_of(trainer))[0] == "Failed"
    entries = await record_of(trainer)
    assert {number: (one.cause, one.step) for number, one in entries.items()} == {0: ("Code", 8.0), 1: ("Code", None)}
    assert (tmp_path / "runs").read_text() == "xx"


@pytest.fixture
def _avoids_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Allowed, "of", lambda _: Allowed(avoid_nodes=True))


@pytest.mark.usefixtures("_avoids_nodes")  # before the cluster begins
async def test_a_node_with_broken_hardware_is_left_for_others(trainer: Client, tmp_path: Path) -> None:
    """Scenario 42: Kubernetes has begun to restart the ranks, and a new JobSet that avoids the node takes over."""
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    for name in ("other-1", "other-2"):
        await trainer.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}, kind=Node.RESOURCE)
        await trainer.patch(Node, name, "", {"status": {"conditions": [ready]}}, type="merge", subresource="status")
    words = "import sys; sys.exit('NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.')"
    await train(trainer, [sys.executable, "-c", words], {"recovery": "gang"})

    async def terms() -> list[Any]:
        try:
            jobset = await trainer.get(JobSet, "j", "default")
        except NotFound:
            return []
        (job,) = jobset.spec_or_empty.replicated_jobs or []
        affinity = job.template.spec_or_empty.template.spec_or_empty.affinity
        nodes = affinity.node_affinity if affinity is not None else None
        required = nodes.required_during_scheduling_ignored_during_execution if nodes is not None else None
        return list(required.node_selector_terms) if required is not None else []

    (term,) = await eventually(terms, what="a JobSet that avoids the node")
    (field,) = term.match_fields or []
    assert (field.key, field.operator, field.values) == ("metadata.name", "NotIn", ["laptop"])
    record = (await trainer.get(ConfigMap, "j-failures", "default")).data
    (entry,) = entries_of(record).values()
    assert (entry.cause, entry.node, entry.hardware) == ("Infrastructure", "laptop", True)
    found = summary_of(record)
    assert found is not None
    assert list(found.avoided) == ["laptop"]

    async def notes() -> list[str]:
        events = (await trainer.list(Event, "default")).items
        return [one.note or "" for one in events if one.reason == "NodeAvoided"]

    (note,) = await eventually(notes, what="the event")
    assert note == (
        "the log of an attempt on node laptop reports broken hardware, attempt 2 avoids it: "
        "ask its administrator to look at it"
    )


HANGS = """
import os, pathlib, sys, threading
from trainwright.progress import Reporter
rank = int(os.environ["PET_NODE_RANK"])
runs = pathlib.Path(sys.argv[1], f"runs-{rank}")
with open(runs, "a") as file:
    file.write("x")

def stuck(lock):
    print(f"rank {rank} waits", flush=True)
    lock.acquire()
    lock.acquire()

with Reporter(total=100, rank=rank) as progress:
    progress.update(step=50)
    if len(runs.read_text()) == 1:
        stuck(threading.Lock())
"""


async def test_the_record_says_where_each_rank_hung(
    trainer: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenario 30: all ranks are restarted, and what they wrote while they were stopped is kept."""
    monkeypatch.setattr(progress, "_SILENCE_SECONDS", 2.0)
    command = [sys.executable, "-c", HANGS, str(tmp_path)]
    await train(trainer, command, {"recovery": "gang", "progress-stall-after": "10s"}, ranks=2)
    assert (await end_of(trainer, seconds=200.0))[0] == "Complete"
    assert {(tmp_path / f"runs-{rank}").read_text() for rank in range(2)} == {"xx"}
    record = (await trainer.get(ConfigMap, "j-failures", "default")).data or {}
    (entry,) = entries_of(record).values()
    assert (entry.cause, entry.charged) == ("Hang", "hang")
    ranks = record["attempt-1.hang"].split("rank 1:\n")
    assert [f"rank {number} waits" in text for number, text in enumerate(ranks)] == [True, True]
    assert all("in stuck" in text for text in ranks)


ENDS = """
import os, sys, time
print("loading", flush=True)
if os.environ["PET_NODE_RANK"] == "1":
    print("attempt of rank 1 ends: out of data", flush=True)
    sys.exit(7)
time.sleep(100)
"""


async def test_the_first_failure_of_each_attempt_survives_its_pods(trainer: Client) -> None:
    container = {"name": "node", "image": "python", "command": [sys.executable, "-c", ENDS]}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    jobset = {"failurePolicy": {"maxRestarts": 1}}
    node = replicated_job(pod=pod, backoffLimit=0)
    runtime = runtime_document("ends", node, policy={"numNodes": 2, "torch": {}}, jobset=jobset)
    await trainer.create(runtime, kind=TrainingRuntime.RESOURCE)
    created = await trainer.create(train_job("ends", {}), kind=TrainJob.RESOURCE)
    entries = await eventually(
        lambda: record_of(trainer), lambda found: len(found) == 2, what="two attempts", ignore=(NotFound,)
    )
    kept = await trainer.get(ConfigMap, "j-failures", "default")
    assert kept.metadata is not None
    assert [owner.uid for owner in kept.metadata.owner_references or ()] == [created["metadata"]["uid"]]
    for attempt, entry in entries.items():
        assert (entry.attempt, entry.replicated_job, entry.rank) == (attempt, "node", 1)
        assert (entry.container, entry.exit_code, entry.reason) == ("node", 7, "Error")
        assert entry.log == "loading\nattempt of rank 1 ends: out of data"

    async def notes() -> list[str]:
        events = (await trainer.list(Event, "default")).items
        return sorted(event.note or "" for event in events if event.reason == "PodFailed")

    told = await eventually(notes, lambda found: len(found) == 2, what="two events")
    assert told == [
        f"attempt {n}: rank 1 failed first: container node ended with exit code 7 (Error): "
        "attempt of rank 1 ends: out of data"
        for n in (1, 2)
    ]


async def test_a_job_that_no_node_takes_says_so_until_it_runs(trainer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "AGAIN_SECONDS", 1.0)
    monkeypatch.setattr(waiting, "WRITE_SECONDS", 1.0)
    await train(trainer, [sys.executable, "-c", "import time; time.sleep(100)"], pod={"nodeSelector": {"here": "yes"}})

    async def stuck() -> str:
        found = find((await trainer.get(TrainJob, "j", "default")).status_or_empty.conditions, "Stuck")
        assert found is None or found.status == "True"
        return found.message if found is not None else ""

    message = await eventually(stuck, what="the condition Stuck")
    assert "node" in message
    assert "here" in message
    await trainer.patch(Node, "laptop", "", {"metadata": {"labels": {"here": "yes"}}})
    await eventually(stuck, lambda found: not found, what="no condition Stuck")
