# SPDX-License-Identifier: Apache-2.0
"""When jobs that are over go; test_trainer_cleanup of the integration tests has their objects."""

import pytest

from tests.builders import condition
from tests.virtual_trainer import SPACE, VirtualTrainer
from trainwright.api.config.v1alpha1 import Cleanup
from trainwright.controller.trainer.job.lifetime import ANNOTATION_JOB


def ends(trainer: VirtualTrainer, seconds: str, manager: str | None = None) -> None:
    """A job that is kept for so many seconds ends now."""
    trainer.start(cleanup=Cleanup())
    trainer.job(annotations={ANNOTATION_JOB: seconds}, managedBy=manager)
    done = {"status": {"conditions": [condition("Complete", at=trainer.cluster.now)]}}
    trainer.stored.patch("trainjob", "job", done, SPACE, subresource="status")


def is_there(trainer: VirtualTrainer) -> bool:
    return trainer.stored.get("trainjob", "job", SPACE) is not None


@pytest.mark.parametrize(
    ("manager", "stays"),
    [(None, False), ("trainer.kubeflow.org/trainjob-controller", False), ("kueue.x-k8s.io/multikueue", True)],
)
def test_a_job_goes_in_time_unless_it_is_another_managers(
    manager: str | None, stays: bool, trainer: VirtualTrainer
) -> None:
    ends(trainer, "60", manager)
    trainer.advance(59)
    assert is_there(trainer)
    trainer.advance(62)
    assert is_there(trainer) is stays


def test_a_job_goes_within_a_minute_after_the_clock_has_jumped(trainer: VirtualTrainer) -> None:
    ends(trainer, "86400")
    trainer.advance(100)
    trainer.cluster.world.set_clock(trainer.replica, 86_400)
    trainer.advance(61)
    assert not is_there(trainer)
