# SPDX-License-Identifier: Apache-2.0
"""The XGBoost plugin: one worker for each accelerator; the workers find each other through a tracker in the first pod.

PlainML runs first and sets the TrainJob's variables, so that those of this plugin can refer to them.
"""

from collections.abc import Iterable

from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.plugins.contract import (
    PORT,
    Finding,
    Info,
    forbidden,
    gpu_count,
    open_trainer_port,
    takes_part,
)

_RESERVED = ("DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER")


class XGBoostPlugin:
    """Sets the number of nodes and the variables of the tracker (DMLC_*), which users must not set.

    For runtimes with `mlPolicy.xgboost`.
    """

    name = "XGBoost"
    after = ("PlainML",)

    def validate(self, info: Info, job: TrainJob) -> Iterable[Finding]:
        """Users must not set the variables of the tracker."""
        trainer = job.spec_or_empty.trainer
        if info.ml_policy_or_empty.xgboost is None or trainer is None:
            return
        for index, variable in enumerate(trainer.env or ()):
            if variable.name in _RESERVED:
                yield forbidden(
                    f"spec.trainer.env[{index}]", f"{variable.name} is set by the XGBoost plugin; remove it"
                )

    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        """Set the number of pods, the address of the tracker and the number of workers."""
        pods = info.trainer_pods
        if info.ml_policy_or_empty.xgboost is None or pods is None:
            return
        pods.set_nodes(job)
        container = info.trainer_container
        if container is None or not takes_part(info, pods):
            return
        per_node = gpu_count(info.resources_per_node()) or 1
        container.set_env("DMLC_TRACKER_URI", pods.host(), why="the first pod runs the tracker")
        container.set_env("DMLC_TRACKER_PORT", PORT, why="the tracker's port")
        container.set_completion_index("DMLC_TASK_ID", why="index of the pod")
        workers = str(pods.count * per_node)
        container.set_env("DMLC_NUM_WORKER", workers, why=f"{pods.count} nodes with {per_node} workers each")
        open_trainer_port(container, why="the tracker listens here")
