# SPDX-License-Identifier: Apache-2.0
"""The PlainML plugin: the number of nodes and the variables of the TrainJob, without any framework.

It serves runtimes without a policy, and those of XGBoost and Flux: their plugins do not set the TrainJob's variables.
"""

from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.plugins.contract import TRAIN_JOB, Info


class PlainMLPlugin:
    """Sets the number of nodes and the TrainJob's variables.

    For runtimes without `mlPolicy.torch`, `mlPolicy.mpi` and `mlPolicy.jax`.
    """

    name = "PlainML"

    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        """Set the number of pods of the trainer and add the TrainJob's variables to its container."""
        policy = info.ml_policy_or_empty
        if policy.torch is not None or policy.mpi is not None or policy.jax is not None:
            return
        if job.spec_or_empty.trainer is None:
            return
        if info.trainer_pods is not None:
            info.trainer_pods.set_nodes(job)
        container = info.trainer_container
        if container is not None:
            for variable in info.trainer_env:
                container.set_variable(variable, why="spec.trainer.env", source=TRAIN_JOB)
