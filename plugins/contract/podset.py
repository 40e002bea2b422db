# SPDX-License-Identifier: Apache-2.0
"""One replicated job, as plugins see and change it: its pods, what they request, their number and their host names.

Of resources only requests count. The requests that the API server adds to a container that has only limits are left
out, as in Kubeflow Trainer and in Kueue, which recomputes these sums.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from trainwright.api.jobset.v1alpha2 import ReplicatedJob
from trainwright.api.kubernetes.batch.v1 import JobSpec, PodFailurePolicy
from trainwright.api.kubernetes.core.v1 import (
    Affinity,
    Container,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSpec,
    PodTemplateSpec,
    ResourceRequirements,
    Volume,
)
from trainwright.api.quantity import Quantity, Wire
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import LABEL_ANCESTOR_STEP, NODE
from trainwright.plugins.contract.container import TRAIN_JOB, ContainerModel, Ledger, upsert
from trainwright.plugins.contract.errors import Refusal


class PodSet:
    """The pods of one replicated job. All lists have the order of the template."""

    __slots__ = (
        "_containers",
        "_count",
        "_host_prefix",
        "_init_containers",
        "_job",
        "_ledger",
        "_pod",
        "_subdomain",
        "path",
    )

    def __init__(self, job: ReplicatedJob, *, host_prefix: str, subdomain: str, count: int, ledger: Ledger) -> None:
        self._job = job
        self._ledger = ledger
        self._host_prefix = host_prefix
        self._subdomain = subdomain
        self._count = count
        self.path = f"spec.replicatedJobs[{job.name}]"
        """Its path in the JobSet."""
        self._pod = pod = pod_spec(job)
        self._containers = tuple(self._model(item, "containers") for item in pod.containers or ())
        self._init_containers = tuple(self._model(item, "initContainers") for item in pod.init_containers or ())

    @property
    def name(self) -> str:
        return self._job.name

    @property
    def step(self) -> str | None:
        """The step of the TrainJob that it runs, from the label of its template; None if it has no such label."""
        return step_of(self._job)

    @property
    def count(self) -> int:
        """The number of pods of one replica."""
        return self._count

    @property
    def replicas(self) -> int:
        """The number of replicas; JobSet's default is one."""
        return 1 if self._job.replicas is None else self._job.replicas

    @property
    def priority_class_name(self) -> str | None:
        return self._pod.priority_class_name

    @property
    def scheduler_name(self) -> str | None:
        """The scheduler that the pods ask for; None: the cluster's default."""
        return self._pod.scheduler_name

    @property
    def runtime_class_name(self) -> str | None:
        return self._pod.runtime_class_name

    @property
    def restart_policy(self) -> str | None:
        """What the kubelet does when a container ends; None: JobSet's default, OnFailure."""
        return self._pod.restart_policy

    @property
    def failure_fields(self) -> Mapping[str, object]:
        """What the template says of failed pods in fields of the Job, by name; fields that are not set are left out."""
        spec = job_spec(self._job)
        fields = {
            "backoffLimit": spec.backoff_limit,
            "backoffLimitPerIndex": spec.backoff_limit_per_index,
            "podFailurePolicy": spec.pod_failure_policy,
            "podReplacementPolicy": spec.pod_replacement_policy,
        }
        return {name: value for name, value in fields.items() if value is not None}

    @property
    def containers(self) -> tuple[ContainerModel, ...]:
        return self._containers

    @property
    def init_containers(self) -> tuple[ContainerModel, ...]:
        """The init containers, sidecars included."""
        return self._init_containers

    @property
    def volumes(self) -> tuple[Volume, ...]:
        return tuple(self._pod.volumes or ())

    def container(self, name: str) -> ContainerModel | None:
        return next((container for container in self._containers if container.name == name), None)

    def any_container(self, name: str) -> ContainerModel | None:
        """The regular or init container of that name."""
        return next((item for item in (*self._containers, *self._init_containers) if item.name == name), None)

    def host(self, replica: int = 0, index: int = 0) -> str:
        """Host name of one pod, which resolves in the namespace."""
        return f"{self._host_prefix}-{self.name}-{replica}-{index}.{self._subdomain}"

    def hosts(self) -> Iterator[str]:
        """Host names of all pods, ordered by replica and then by index."""
        return (self.host(replica, index) for replica in range(self.replicas) for index in range(self._count))

    def requests(self) -> Mapping[str, Quantity]:
        """What one pod requests, by resource name, as the scheduler counts it."""
        return pod_requests(self._pod)

    def set_count(self, count: int, *, why: str, source: str = "") -> None:
        before, self._count = self._count, count
        self._ledger.record(f"{self.path}.template.spec.parallelism", count, before=before, why=why, source=source)

    def set_nodes(self, job: TrainJob) -> None:
        """Take the number of pods that `spec.trainer.numNodes` asks for, if it does."""
        nodes = job.spec_or_empty.trainer_or_empty.num_nodes
        if nodes is not None:
            self.set_count(nodes, why="spec.trainer.numNodes", source=TRAIN_JOB)

    def set_restart_policy(self, policy: str, *, why: str) -> None:
        """Say what the kubelet does when a container ends."""
        before, self._pod.restart_policy = self._pod.restart_policy, policy
        self._ledger.record(f"{self._pod_path}.restartPolicy", policy, before=before, why=why)

    def set_backoff_limit(self, limit: int, *, why: str) -> None:
        """Say how many failed pods the Job replaces before it fails."""
        spec = job_spec(self._job)
        before, spec.backoff_limit = spec.backoff_limit, limit
        self._ledger.record(f"{self.path}.template.spec.backoffLimit", limit, before=before, why=why)

    def set_pod_failure_policy(self, policy: PodFailurePolicy, *, why: str) -> None:
        """Say what a failed pod means for the Job. Kubernetes takes it with the restart policy Never only."""
        spec = job_spec(self._job)
        before, spec.pod_failure_policy = spec.pod_failure_policy, policy
        self._ledger.record(f"{self.path}.template.spec.podFailurePolicy", policy, before=before, why=why)

    def avoid_nodes(self, names: Sequence[str], *, why: str) -> None:
        """Keep the pods off nodes, beside what their affinity asks for already."""
        if self._pod.affinity is None:
            self._pod.affinity = Affinity()
        if self._pod.affinity.node_affinity is None:
            self._pod.affinity.node_affinity = NodeAffinity()
        nodes = self._pod.affinity.node_affinity
        required = nodes.required_during_scheduling_ignored_during_execution
        before = required.node_selector_terms if required is not None else None
        # A requirement on names takes one value. A pod fits if one of the terms does, so each of them needs all.
        others = [NodeSelectorRequirement(key="metadata.name", operator="NotIn", values=[name]) for name in names]
        terms = [one.deepcopy() for one in before or [NodeSelectorTerm()]]
        for term in terms:
            term.match_fields = [*(term.match_fields or ()), *others]
        nodes.required_during_scheduling_ignored_during_execution = NodeSelector(node_selector_terms=terms)
        path = f"{self._pod_path}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        self._ledger.record(path, terms, before=before, why=why)

    def set_volume(self, volume: Volume, *, why: str) -> None:
        """Add a volume. It replaces a volume of the same name entirely."""
        if self._pod.volumes is None:
            self._pod.volumes = []
        before = upsert(self._pod.volumes, volume, lambda other: other.name == volume.name)
        path = f"{self._pod_path}.volumes[{volume.name}]"
        self._ledger.record(path, volume, before=before, why=why)

    def add_init_container(self, container: Container, *, why: str) -> ContainerModel:
        """Append an init container; it runs after those of the template.

        Raises Refusal if the pod already has a container of that name.
        """
        if self.any_container(container.name) is not None:
            raise Refusal(
                f"replicated job {self.name} already has a container {container.name}; rename the one in the runtime"
            )
        self._pod.init_containers = [*(self._pod.init_containers or ()), container]
        model = self._model(container, "initContainers")
        self._init_containers = (*self._init_containers, model)
        self._ledger.record(model.path, container, before=None, why=why)
        return model

    @property
    def _pod_path(self) -> str:
        return f"{self.path}.template.spec.template.spec"

    def _model(self, container: Container, where: str) -> ContainerModel:
        return ContainerModel(container, f"{self._pod_path}.{where}[{container.name}]", self._ledger)


def step_of(job: ReplicatedJob) -> str | None:
    """The step that a replicated job is labelled with."""
    return (job.template.metadata_or_empty.labels or {}).get(LABEL_ANCESTOR_STEP)


def pod_spec(job: ReplicatedJob) -> PodSpec:
    """The pod spec of a replicated job; the objects around it that the template leaves out are created."""
    template = job_spec(job).template
    if template.spec is None:
        template.spec = PodSpec(containers=[])
    return template.spec


def job_spec(job: ReplicatedJob) -> JobSpec:
    """The spec of the Jobs of a replicated job; it is created if the template leaves it out."""
    if job.template.spec is None:
        job.template.spec = JobSpec(template=PodTemplateSpec())
    return job.template.spec


@dataclass(frozen=True, slots=True)
class PodRef:
    """One pod of a JobSet, and the container in it that trains."""

    job: str
    """Name of the replicated job."""
    replica: int = 0
    index: int = 0
    """The completion index of the pod."""
    container: str = NODE

    @classmethod
    def first_of(cls, pods: PodSet | None) -> Self | None:
        """The first pod of a replicated job; None without one."""
        return cls(pods.name) if pods is not None else None


_SIDECAR = "Always"
"""The restartPolicy that turns an init container into a sidecar."""
_POD_LEVEL = ("cpu", "memory")
_POD_LEVEL_PREFIX = "hugepages-"

Amounts = dict[str, Quantity]


def pod_requests(pod: PodSpec) -> Amounts:
    """What the scheduler counts for one pod.

    That is the sum of containers and sidecars, or the peak during initialisation if it is higher. Requests of the pod
    as a whole replace the sum; overhead is added.
    """
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in pod.init_containers or ():
        own = amounts(container.resources_or_empty.requests)
        if container.restart_policy == _SIDECAR:
            add(sidecars, own)
            raise_to(peak, sidecars)
        else:
            raise_to(peak, _sum(own, sidecars))
    total = dict(sidecars)
    for container in pod.containers or ():
        add(total, amounts(container.resources_or_empty.requests))
    raise_to(total, peak)
    total.update(_pod_level(pod))
    add(total, amounts(pod.overhead))
    return total


def amounts(wire: Mapping[str, Wire] | None) -> Amounts:
    """Read a resource list. Raises Refusal for a value that is not a quantity."""
    return {name: _parsed(name, value) for name, value in (wire or {}).items()}


def add(total: Amounts, more: Mapping[str, Quantity]) -> None:
    """Add to a sum, resource by resource."""
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def raise_to(total: Amounts, other: Mapping[str, Quantity]) -> None:
    """Raise each resource to the other amount where that is higher."""
    for name, amount in other.items():
        if name not in total or amount > total[name]:
            total[name] = amount


def gpu_count(resources: ResourceRequirements | None) -> int:
    """Number of accelerators of one container: its requests, or its limits if it requests none. 0 without any."""
    if resources is None:
        return 0
    return _gpus(resources.requests) or _gpus(resources.limits)


def cpu_count(resources: ResourceRequirements | None) -> int:
    """Number of CPUs of one container, rounded up: its requests, or its limits if it requests none."""
    if resources is None:
        return 0
    return _units(resources.requests, "cpu") or _units(resources.limits, "cpu")


def _gpus(wire: Mapping[str, Wire] | None) -> int:
    """The resource with `gpu` in its name; of several, one that ends in /gpu, else the first by name."""
    names = sorted(name for name in wire or {} if "gpu" in name.lower())
    if not names:
        return 0
    return _units(wire, next((name for name in names if name.lower().endswith("/gpu")), names[0]))


def _units(wire: Mapping[str, Wire] | None, name: str) -> int:
    value = (wire or {}).get(name)
    return _parsed(name, value).rounded_up() if value is not None else 0


def _parsed(name: str, value: Wire) -> Quantity:
    try:
        return Quantity.parse(value)
    except ValueError as error:
        raise Refusal(f"resource {name}: {error}") from error


def _pod_level(pod: PodSpec) -> Amounts:
    requests = amounts(pod.resources_or_empty.requests)
    return {name: a for name, a in requests.items() if name in _POD_LEVEL or name.startswith(_POD_LEVEL_PREFIX)}


def _sum(one: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> Amounts:
    total = dict(one)
    add(total, other)
    return total
