# SPDX-License-Identifier: Apache-2.0
"""What is kept of jobs that have ended."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.builders import condition, train_job
from trainwright.api.jobset.v1alpha2.labels import LABEL_JOBSET
from trainwright.api.objects import wire
from trainwright.controller.cli.commands import WrongUseError
from trainwright.controller.cli.local import ends
from trainwright.controller.cli.local.submission import _make_room
from trainwright.controller.local.node.folders import ended_pods

MIB = 1 << 20


def job(name: str, kind: str = "", at: str = "") -> dict[str, Any]:
    return wire(train_job(name, uid=name, conditions=[condition(kind, at=at)] if kind else []))


def test_jobs_that_have_ended_come_latest_first() -> None:
    jobs = [
        job("runs"),
        job("first", "Failed", "2026-11-25T10:00:00Z"),
        job("suspended", "Suspended", "2026-11-25T12:00:00Z"),
        job("last", "Complete", "2026-11-25T11:00:00Z"),
    ]
    found = ends.ended_jobs(jobs)
    assert [(one.job["metadata"]["name"], one.how) for one in found] == [("last", "Complete"), ("first", "Failed")]


class Cluster:
    """Lists jobs and claims, and notes which jobs are deleted."""

    def __init__(self, jobs: Sequence[dict[str, Any]], claims: Sequence[dict[str, Any]]) -> None:
        self.jobs, self.claims = jobs, claims
        self.deleted: Any = []

    async def patch(self, _resource: Any, name: str, _namespace: str, marks: dict[str, Any]) -> None:
        found = await self.get(_resource, name, _namespace)
        found["metadata"].setdefault("annotations", {}).update(marks["metadata"]["annotations"])

    async def list(self, resource: Any, _namespace: str = "", *, label_selector: str = "") -> Any:
        if resource.plural == "trainjobs":
            return SimpleNamespace(items=self.jobs)
        return SimpleNamespace(
            items=[
                claim
                for claim in self.claims
                if label_selector == f"jobset.sigs.k8s.io/jobset-name={claim['metadata']['labels'][LABEL_JOBSET]}"
            ]
        )

    async def get(self, _resource: Any, name: str, _namespace: str) -> dict[str, Any]:
        return next(one for one in self.jobs if one["metadata"]["name"] == name)

    async def delete(self, _resource: Any, name: str, _namespace: str, **_options: Any) -> None:
        self.deleted.append(name)


def claim(job: str, *, retained: bool) -> dict[str, Any]:
    owners = [] if retained else [{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": job, "uid": "u"}]
    return {"metadata": {"name": f"initializer-{job}", "labels": {LABEL_JOBSET: job}, "ownerReferences": owners}}


NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)


def lines(folder: Path, name: str, size: int) -> Path:
    """The lines of a pod of a job, in a file of so many bytes."""
    file = folder / f"n_{name}-node-0_{name}" / "node" / "0.log"
    file.parent.mkdir(parents=True)
    top = {"api_version": "v1", "kind": "TrainJob", "namespace": "n", "name": name, "uid": name}
    (file.parent.parent / "pod.json").write_text(json.dumps({"top": top, "pod": {"metadata": {"uid": name}}}))
    with file.open("wb") as stream:
        stream.truncate(size)
    return file


async def test_many_small_runs_are_all_kept(tmp_path: Path) -> None:
    cluster: Any = Cluster([job(f"j{n}", "Complete", f"2026-11-25T10:00:{n % 60:02}Z") for n in range(100)], [])
    for one in cluster.jobs:
        lines(tmp_path, one["metadata"]["name"], MIB)
    assert await ends.drop_lines(cluster, tmp_path, NOW) == []
    assert cluster.deleted == []


async def test_the_oldest_lines_go_a_day_after_that_was_said_and_nothing_else(tmp_path: Path) -> None:
    cluster: Any = Cluster(
        [job(name, "Complete", f"2026-11-25T10:0{n}:00Z") for n, name in enumerate(("old", "middle", "last"))], []
    )
    files = {name: lines(tmp_path, name, size * MIB) for name, size in (("old", 1), ("middle", 900), ("last", 1500))}
    (said,) = await ends.drop_lines(cluster, tmp_path, NOW)
    assert said.startswith("warning: the lines of jobs that have ended take 2401.0 MiB, more than 2048.0 MiB; from ")
    assert "2026-11-26T12:00:00Z on, those of middle, old will be deleted" in said
    # It is said once, and nothing goes before its time.
    assert await ends.drop_lines(cluster, tmp_path, NOW + timedelta(hours=23)) == []
    assert all(file.exists() for file in files.values())
    told = await ends.drop_lines(cluster, tmp_path, NOW + timedelta(hours=24))
    assert [words.split(";")[0] for words in told] == [
        "the lines of TrainJob middle are deleted",
        "the lines of TrainJob old are deleted",
    ]
    assert [name for name, file in files.items() if file.exists()] == ["last"]
    assert len(ended_pods(tmp_path)) == 3
    assert cluster.deleted == []


async def test_lines_that_fit_again_are_announced_anew(tmp_path: Path) -> None:
    cluster: Any = Cluster(
        [job("old", "Complete", "2026-11-25T10:00:00Z"), job("b", "Failed", "2026-11-25T11:00:00Z")], []
    )
    lines(tmp_path, "old", MIB)
    large = lines(tmp_path, "b", 2048 * MIB)
    assert len(await ends.drop_lines(cluster, tmp_path, NOW)) == 1
    with large.open("r+b") as stream:
        stream.truncate(MIB)
    assert await ends.drop_lines(cluster, tmp_path, NOW) == []
    assert ends.lines_until(cluster.jobs[0]) is None


async def test_a_job_whose_claims_go_with_it_is_not_replaced() -> None:
    ended = job("tuned", "Complete", "2026-11-25T10:00:00Z")
    cluster: Any = Cluster([ended], [claim("tuned", retained=False)])
    with pytest.raises(WrongUseError, match="is not replaced: initializer-tuned would be deleted with it"):
        await _make_room(cluster, job("tuned"))
    assert cluster.deleted == []
