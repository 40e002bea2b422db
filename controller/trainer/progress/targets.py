# SPDX-License-Identifier: Apache-2.0
"""Where the progress of a job is read: what the job declares, and the pod that its framework names.

The pod is found with one list, and kept by the caller. Pods are not watched: a cluster has many more than jobs.
"""

from dataclasses import dataclass, replace

import msgspec

from trainwright.api.jobset.v1alpha2.labels import LABEL_INDEX, LABEL_JOB_INDEX, LABEL_JOBSET, LABEL_REPLICATED_JOB
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.objects import (
    Document,
    annotations_of,
    deletion_timestamp_of,
    dig,
    name_of,
    uid_of,
)
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import (
    ANNOTATION_PROGRESS,
    PROGRESS_FILE,
    STEP_DATASET_INITIALIZER,
    STEP_MODEL_INITIALIZER,
)
from trainwright.api.trainer.v1alpha1.progress import DEFAULT_FILE, Declaration, declared
from trainwright.controller.runtime import Client, KubernetesError
from trainwright.controller.trainer.build.facts import CachedFacts
from trainwright.controller.trainer.build.snapshot import Snapshots
from trainwright.plugins.contract import FactUnavailable, PipelineError, PodRef
from trainwright.plugins.pipeline import Pipeline

POD = Pod.RESOURCE


class TargetUnknown(KubernetesError):  # noqa: N818 - a state, which passes
    """It is not known yet which pod reports."""


@dataclass(frozen=True, slots=True)
class Target:
    """How and where one job is read."""

    declaration: Declaration
    pod: PodRef
    loading: "tuple[Target, ...]" = ()
    """The initializers, which are read before the training."""
    is_initializer: bool = False

    @property
    def container(self) -> str:
        """The container that writes the file."""
        return self.declaration.container or self.pod.container


@dataclass(frozen=True, slots=True)
class FoundPod:
    """The pod with rank 0."""

    name: str
    uid: str
    node: str
    running: bool
    """Whether the container runs."""
    message: str
    """The termination message of the container's last run; empty without one."""
    has_container: bool = True
    """False if the pod has other containers only."""


class Targets:
    """Knows the targets of jobs. Keeps nothing: callers do, by uid and annotations of the job."""

    def __init__(self, pipeline: Pipeline, snapshots: Snapshots, facts: CachedFacts) -> None:
        self._pipeline = pipeline
        self._snapshots = snapshots
        self._facts = facts

    async def of(self, job: TrainJob) -> Target | None:
        """The target of a job; None if no file is to be read.

        Raises TargetUnknown and other KubernetesErrors; try again later.
        """
        own = annotations_of(job)
        if own.get(ANNOTATION_PROGRESS, PROGRESS_FILE) != PROGRESS_FILE:
            return None
        runtime = await self._snapshots.existing(job)
        if runtime is None:
            raise TargetUnknown("the job has no snapshot of its runtime yet")
        declaration, _ = declared(own, annotations_of(runtime))
        if not declaration.reads_file:
            return None
        try:
            run = self._pipeline.begin(job, runtime)
            info = run.enforced(await self._facts.read(run.references()))
        except (PipelineError, FactUnavailable) as error:
            raise TargetUnknown(str(error)) from error
        if info.reporter is None:
            return None
        own_file = replace(declaration, file=DEFAULT_FILE, container="")
        loading = tuple(
            Target(own_file, PodRef(pods.name, container=step), is_initializer=True)
            for pods in info.pod_sets
            if (step := pods.step or "") in (STEP_DATASET_INITIALIZER, STEP_MODEL_INITIALIZER)
            and pods.container(step) is not None
        )
        return Target(declaration, info.reporter, loading)


async def find_pod(client: Client, job: TrainJob, target: Target) -> FoundPod | None:
    """The pod with rank 0; None if there is none. Raises KubernetesError."""
    where = target.pod
    labels = {
        LABEL_JOBSET: job.name,
        LABEL_REPLICATED_JOB: where.job,
        LABEL_JOB_INDEX: where.replica,
        LABEL_INDEX: where.index,
    }
    selector = ",".join(f"{name}={value}" for name, value in labels.items())
    # "0": the API server answers from its cache. All: pods of an index that have failed stay beside the one that runs.
    page = await client.list_page(POD, job.namespace, label_selector=selector, limit=0, resource_version="0")
    pods: list[Document] = [msgspec.json.decode(item) for item in page.items]
    current = [pod for pod in pods if deletion_timestamp_of(pod) is None]
    if not current:
        return None
    pod = max(current, key=lambda one: str(one["metadata"].get("creationTimestamp") or ""))
    status = pod.get("status") or {}
    listed = (one for one in status.get("containerStatuses") or () if one.get("name") == target.container)
    container: Document = next(listed, {})
    spec = pod.get("spec") or {}
    containers = {str(one.get("name")) for one in spec.get("containers") or ()}
    return FoundPod(
        name=name_of(pod),
        uid=uid_of(pod),
        node=str(spec.get("nodeName") or ""),
        running=dig(container, "state.running") is not None,
        message=_last_message(container),
        has_container=not containers or target.container in containers,
    )


def _last_message(container: Document) -> str:
    """The termination message; after a restart in the pod that of the run before."""
    for field in ("state", "lastState"):
        ended = dig(container.get(field), "terminated") or {}
        if ended.get("message"):
            return str(ended["message"])
    return ""
