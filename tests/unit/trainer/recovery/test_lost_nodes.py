# SPDX-License-Identifier: Apache-2.0
"""Pods that a lost node keeps from ending are ended, whatever is known of their attempt."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import msgspec
import pytest

from tests.unit.trainer.recovery.test_recovery_causes import pod
from trainwright.api.config.v1alpha1 import Configuration
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import Node
from trainwright.api.objects import Document, Key, name_of, owner_reference
from trainwright.api.times import format_time
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.recovery import Declaration
from trainwright.controller.runtime import Done, NotFound, Result, RetryAfter
from trainwright.controller.trainer.assembly.parts import rights
from trainwright.controller.trainer.assembly.settings import settings_of
from trainwright.controller.trainer.job.pods import POD
from trainwright.controller.trainer.job.records import JobRecords
from trainwright.controller.trainer.recovery.attempts import Glance, KnownAttempts
from trainwright.controller.trainer.recovery.recorder import LOST_SECONDS, RecoveryRecorder
from trainwright.controller.trainer.recovery.verdict import Summary
from trainwright.plugins.registry import Registry, built_in

NOW = datetime(2026, 11, 25, 10, 0, 0, tzinfo=UTC)
KEY = Key("n", "j")
GONE = NotFound("node lost", code=404, reason="NotFound")
DUE = NOW - timedelta(seconds=LOST_SECONDS)


def ending(attempt: int, since: datetime) -> Document:
    """A pod on the node `lost` that is being deleted, and does not end."""
    found = pod(0, node="lost")
    found["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] = str(attempt)
    found["metadata"]["deletionTimestamp"] = format_time(since)
    return found


async def reconciled(node: Any, pods: list[Document]) -> tuple[Result, Any]:
    """Reconcile a job in its second attempt, whose first is judged; returns the result and the client."""
    job = msgspec.convert(
        {"metadata": {"name": "j", "namespace": "n", "uid": "job"}, "spec": {"runtimeRef": {"name": "r"}}}, TrainJob
    )
    owners = [owner_reference(job, TrainJob.RESOURCE)]
    metadata = {"name": "j", "namespace": "n", "uid": "s1", "ownerReferences": owners}
    jobset = msgspec.convert({"metadata": metadata, "status": {"restarts": 1}}, JobSet)
    known = KnownAttempts(summary=Summary(judged=1, jobset="s1"))
    client = SimpleNamespace(get=AsyncMock(side_effect=[node]), patch=AsyncMock(), delete=AsyncMock())
    cache = SimpleNamespace(get=lambda kind, *_: jobset if kind is JobSet else job)
    manager: Any = SimpleNamespace(client=client, cache=cache, applier=None, controller=MagicMock())
    recoveries: Any = SimpleNamespace(
        wanted=AsyncMock(return_value=Declaration(mode="gang", retries=2)),
        known=AsyncMock(return_value=known),
        glance=lambda *_: Glance(job=job, jobset=jobset, pods=pods, now=NOW),
    )
    recorder = RecoveryRecorder(manager, MagicMock(), JobRecords(), recoveries)
    return await recorder.reconcile(KEY), client


async def test_a_pod_of_an_attempt_that_is_judged_already_is_ended_too() -> None:
    held = ending(0, DUE)
    result, client = await reconciled(GONE, [held])
    assert result == Done()
    assert client.patch.await_args.args[3]["status"]["phase"] == "Failed"
    assert client.delete.await_args.args[:2] == (POD, name_of(held))


@pytest.mark.parametrize("ready", ["False", "True"])
async def test_a_node_that_answers_keeps_its_pod(ready: str) -> None:
    node = msgspec.convert({"status": {"conditions": [{"type": "Ready", "status": ready}]}}, Node)
    result, client = await reconciled(node, [ending(0, DUE)])
    assert client.delete.await_count == (0 if ready == "True" else 1)
    assert isinstance(result, RetryAfter) is (ready == "True")


async def test_a_pod_has_its_grace_and_a_minute() -> None:
    result, client = await reconciled(GONE, [ending(1, DUE + timedelta(seconds=30))])
    assert isinstance(result, RetryAfter)
    assert client.get.await_count == client.delete.await_count == 0


def test_rights_to_end_pods_come_with_the_gate_alone() -> None:
    """Beside those of the gate `Explain`, which looks at nodes too."""

    def granted(*, on: bool) -> set[tuple[str, str]]:
        settings = settings_of(Configuration(feature_gates={"Recovery": on, "Explain": True}))
        found = rights(settings, Registry.load(settings.plugins, built_in()), "kubeflow-system").on_jobs
        return {(rule.resource, verb) for rule in found for verb in rule.verbs}

    added = granted(on=True) - granted(on=False)
    assert added == {("pods/status", "patch"), ("pods", "delete")}
