# SPDX-License-Identifier: Apache-2.0
"""The JAX plugin: one process on each node; the processes find each other through a coordinator in the first pod."""

from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.plugins.contract import PORT, Info, open_trainer_port, takes_part


class JAXPlugin:
    """Sets the number of nodes and the variables JAX_NUM_PROCESSES, JAX_PROCESS_ID and JAX_COORDINATOR_ADDRESS.

    For runtimes with `mlPolicy.jax`.
    """

    name = "JAX"

    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        """Set the number of pods, the address of the coordinator and the index of each process."""
        pods = info.trainer_pods
        if info.ml_policy_or_empty.jax is None or pods is None:
            return
        pods.set_nodes(job)
        container = info.trainer_container
        if container is None or not takes_part(info, pods):
            return
        container.set_env("JAX_NUM_PROCESSES", str(pods.count), why="one process per node")
        container.set_completion_index("JAX_PROCESS_ID", why="index of the pod")
        container.set_env("JAX_COORDINATOR_ADDRESS", f"{pods.host()}:{PORT}", why="the first pod coordinates")
        open_trainer_port(container, why="the coordinator listens here")
