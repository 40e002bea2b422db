# SPDX-License-Identifier: Apache-2.0
"""The address at which the processes of a distributed training meet: a port of the first pod of the trainer."""

from typing import Final

from trainwright.api.kubernetes.core.v1 import ContainerPort
from trainwright.api.trainer.v1alpha1.constants import TRAINER_PORT
from trainwright.plugins.contract.container import ContainerModel
from trainwright.plugins.contract.info import Info
from trainwright.plugins.contract.podset import PodSet

PORT: Final = str(TRAINER_PORT)
"""The port as the value of a variable."""


def open_trainer_port(container: ContainerModel, *, why: str) -> None:
    """Declare the port that the first pod listens on."""
    container.set_port(ContainerPort(container_port=TRAINER_PORT), why=why)


def takes_part(info: Info, pods: PodSet) -> bool:
    """Whether the framework is set up in the trainer's main container.

    Without spec.trainer, the container of a single node stays as the runtime has it. Several nodes are always set up,
    since they could not find each other otherwise.
    """
    return (info.job.spec_or_empty.trainer is not None) or pods.count > 1
