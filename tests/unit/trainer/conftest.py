# SPDX-License-Identifier: Apache-2.0
"""The manager in virtual time."""

import pytest

from tests.virtual_trainer import VirtualTrainer
from trainwright.controller.simulation.virtual import VirtualCluster


@pytest.fixture
def trainer(virtual_cluster: VirtualCluster) -> VirtualTrainer:
    """A cluster with a runtime; `start` runs the manager, `job` creates a TrainJob."""
    return VirtualTrainer(virtual_cluster)
