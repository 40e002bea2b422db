# SPDX-License-Identifier: Apache-2.0
"""The kinds of runtime that a TrainJob may refer to."""

from typing import TypeAlias

from trainwright.api.trainer.v1alpha1.models import ClusterTrainingRuntime, TrainingRuntime

Runtime: TypeAlias = TrainingRuntime | ClusterTrainingRuntime

RUNTIMES: tuple[type[Runtime], ...] = (TrainingRuntime, ClusterTrainingRuntime)
