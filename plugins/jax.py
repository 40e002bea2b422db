# SPDX-License-Identifier: Apache-2.0
"""JAX: one process per node, which find each other at a coordinator in the first pod."""

from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.plugins.contract import PORT, TRAIN_JOB, Info, open_trainer_port, takes_part


class JAXPlugin:
    """Source: spec/plugins.md section 2.3."""

    name = "JAX"

    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        """Set the number of pods, the coordinator's address and each process's place."""
        pods = info.trainer_pods
        if info.ml_policy is None or info.ml_policy.jax is None or pods is None:
            return
        trainer = job.spec.trainer if job.spec is not None else None
        if trainer is not None and trainer.num_nodes is not None:
            pods.set_count(trainer.num_nodes, why="spec.trainer.numNodes", source=TRAIN_JOB)
        container = info.trainer_container
        if container is None or not takes_part(info, pods):
            return
        container.set_env("JAX_NUM_PROCESSES", str(pods.count), why="one process per node")
        container.set_completion_index("JAX_PROCESS_ID", why="index of the pod")
        container.set_env("JAX_COORDINATOR_ADDRESS", f"{pods.host()}:{PORT}", why="the first pod coordinates")
        open_trainer_port(container, why="the coordinator listens here")
