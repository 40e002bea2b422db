# SPDX-License-Identifier: Apache-2.0
"""Ray: the first pod is the head, the others join it. For runtimes labelled trainer.kubeflow.org/framework: ray."""

from collections.abc import Iterable

import msgspec

from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.plugins.contract import Component, Finding, Info, Stage, Watch, invalid


class Settings(msgspec.Struct, forbid_unknown_fields=True):
    """Settings of this plugin in the manager's Configuration."""

    port: int = 6379


class RayPlugin:
    """Where the head is, as variables and as a file."""

    name = "Ray"
    after = ("PlainML",)  # which sets the number of nodes and the TrainJob's variables
    Configuration = Settings

    def __init__(self, settings: Settings) -> None:
        self._port = settings.port

    def watches(self) -> tuple[Watch, ...]:
        return (Watch(ConfigMap.RESOURCE, metadata_only=True, makes=True),)

    def validate(self, info: Info) -> Iterable[Finding]:
        for index, variable in enumerate(info.trainer_env if _is_ray(info) else ()):
            if variable.name == "RAY_ADDRESS":
                yield invalid(f"spec.trainer.env[{index}]", variable.name, "is set by the Ray plugin; remove it")

    def enforce_ml_policy(self, info: Info) -> None:
        container, pods = info.trainer_container, info.trainer_pods
        if _is_ray(info) and container is not None and pods is not None:
            container.set_env("RAY_ADDRESS", f"{pods.host()}:{self._port}", why="the first pod is the head")
            container.set_env("RAY_NODES", str(pods.count), why="number of nodes")
            container.set_completion_index("RAY_RANK", why="index of the pod")

    def build(self, info: Info, job: TrainJob) -> Iterable[Component]:
        pods = info.trainer_pods
        if _is_ray(info) and pods is not None:
            hosts = "".join(f"{host}\n" for host in pods.hosts())
            name = f"{job.name}-ray-hosts"
            yield Component.owned_by(job, ConfigMap.RESOURCE, name, {"data": {"hosts": hosts}}, stage=Stage.POD_INPUT)


def _is_ray(info: Info) -> bool:
    labels = info.runtime.metadata.labels if info.runtime.metadata is not None else None
    return (labels or {}).get("trainer.kubeflow.org/framework") == "ray"
