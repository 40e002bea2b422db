# SPDX-License-Identifier: Apache-2.0
"""The conditions that explain, of the whole manager on an API server."""

from datetime import timedelta
from typing import Any

from tests.builders import condition, ended, labels_of_pod, running
from tests.virtual_trainer import SPACE, VirtualTrainer
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.objects import Document
from trainwright.controller.runtime.testing.objects import build

BACK_OFF: Document = {"waiting": {"reason": "CrashLoopBackOff"}}


def test_a_pod_that_is_ready_between_two_crashes_does_not_hide_the_loop(trainer: VirtualTrainer) -> None:
    trainer.start(feature_gates={"Explain": True})
    trainer.job()
    trainer.advance(10)
    trainer.counted(active=1)
    jobset = trainer.stored.wait("jobset", "job", namespace=SPACE)
    labels = labels_of_pod(job="job", jobset_uid=jobset["metadata"]["uid"])
    spec = {"containers": [{"name": "node", "image": "i"}]}
    trainer.stored.create(build(Pod.RESOURCE, "job-node-0-0-abcde", SPACE, labels=labels, spec=spec))

    def becomes(ready: int, state: Document) -> None:
        container: dict[str, Any] = {"name": "node", "restartCount": 2, "image": "i", "imageID": "", "ready": False}
        container |= {"state": state, "lastState": ended(1, at=trainer.cluster.now - timedelta(seconds=20))}
        is_ready = condition("Ready", str(bool(ready)), at=trainer.cluster.now)
        status = {"phase": "Running", "containerStatuses": [container], "conditions": [is_ready]}
        trainer.stored.patch("pod", "job-node-0-0-abcde", {"status": status}, SPACE, subresource="status")
        trainer.counted(active=1, ready=ready)

    becomes(0, BACK_OFF)
    trainer.advance(60)
    loop = [("Restarting", "True", "CrashLoop")]
    assert [shown for _, shown in trainer.conditions] == [loop]
    # The pod runs for a moment, and fails again.
    becomes(1, running(trainer.cluster.now))
    trainer.advance(30)
    becomes(0, BACK_OFF)
    trainer.advance(60)
    assert [shown for _, shown in trainer.conditions] == [loop]
    # It runs for longer than a kubelet remembers.
    becomes(1, running(trainer.cluster.now))
    trainer.advance(3600)
    assert [shown for _, shown in trainer.conditions] == [loop, []]
