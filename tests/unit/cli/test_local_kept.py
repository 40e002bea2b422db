# SPDX-License-Identifier: Apache-2.0
"""Which jobs that have ended are kept."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trainwright.api.jobset.v1alpha2.labels import LABEL_JOBSET
from trainwright.controller.cli.commands import WrongUseError
from trainwright.controller.cli.local import ending
from trainwright.controller.cli.local.running import _make_room

MIB = 1 << 20


def job(name: str, kind: str = "", at: str = "") -> dict[str, Any]:
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": at}] if kind else []
    return {"metadata": {"name": name, "namespace": "n", "uid": name}, "status": {"conditions": conditions}}


def test_jobs_that_have_ended_come_latest_first() -> None:
    jobs = [
        job("runs"),
        job("first", "Failed", "2026-11-25T10:00:00Z"),
        job("suspended", "Suspended", "2026-11-25T12:00:00Z"),
        job("last", "Complete", "2026-11-25T11:00:00Z"),
    ]
    found = ending.ended_jobs(jobs)
    assert [(one.job["metadata"]["name"], one.how) for one in found] == [("last", "Complete"), ("first", "Failed")]


@pytest.mark.parametrize(
    ("sizes", "wanted"),
    [
        ([], 0),
        ([1] * 19, 19),
        ([1] * 25, ending.MOST),
        ([600 * MIB, 400 * MIB, 100 * MIB, 1], 2),
        # The latest stays, whatever it takes, and nothing else then.
        ([5000 * MIB, 1], 1),
    ],
)
def test_the_last_ones_are_kept_as_far_as_there_is_room(sizes: list[int], wanted: int) -> None:
    assert ending.beyond(sizes) == wanted


class Cluster:
    """Lists jobs and claims, and notes which jobs are deleted."""

    def __init__(self, jobs: Sequence[dict[str, Any]], claims: Sequence[dict[str, Any]]) -> None:
        self.jobs, self.claims = jobs, claims
        self.deleted: Any = []

    async def list(self, resource: Any, _namespace: str = "", *, label_selector: str) -> Any:
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


async def test_a_job_whose_claims_go_with_it_is_never_deleted_by_a_bound(tmp_path: Path) -> None:
    """A torchtune runtime writes the trained model into such a claim."""
    jobs = [job(f"j{number:02}", "Complete", f"2026-11-25T10:{number:02}:00Z") for number in range(ending.MOST + 3)]
    cluster: Any = Cluster(jobs, [claim("j00", retained=False), claim("j01", retained=True)])
    assert await ending.drop_old(cluster, tmp_path) == ["j02", "j01"]
    assert cluster.deleted == ["j02", "j01"]
    assert await ending.claims_of(cluster, jobs[0]) == ["initializer-j00"]


async def test_a_job_whose_claims_go_with_it_is_not_replaced() -> None:
    ended = job("tuned", "Complete", "2026-11-25T10:00:00Z")
    cluster: Any = Cluster([ended], [claim("tuned", retained=False)])
    with pytest.raises(WrongUseError, match="is not replaced: initializer-tuned would be deleted with it"):
        await _make_room(cluster, job("tuned"))
    assert cluster.deleted == []
