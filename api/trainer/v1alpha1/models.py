# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
# ruff: noqa: RUF100, C901, E501, PLC0415, PLR0912, PLR0915, S105
# fmt: off
"""The structs of trainer.kubeflow.org/v1alpha1; import them from the package."""

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

from msgspec import field

from trainwright.api.base import Merge, Object, Resource, Struct, empty
from trainwright.api.jobset.v1alpha2 import models as jobset_v1alpha2
from trainwright.api.kubernetes.core.v1 import models as core_v1
from trainwright.api.kubernetes.meta.v1 import models as meta_v1


class CoschedulingPodGroupPolicySource(Struct, kw_only=True):
    """Settings for coscheduling."""

    schedule_timeout_seconds: int | None = field(name="scheduleTimeoutSeconds", default=None)
    """Seconds that the gang may wait for its last pod."""

    def set_defaults(self) -> None:
        if self.schedule_timeout_seconds is None:
            self.schedule_timeout_seconds = 60


class EnvInjectionTarget(Struct, kw_only=True):
    """Containers of one replicated job."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "containerNames": Merge("set"),
    }

    job_name: str = field(name="jobName")
    """Name of the replicated job."""
    container_names: list[str] = field(name="containerNames")
    """Names of its containers or init containers."""

    def deepcopy(self) -> Self:
        n = self.__copy__()
        n.container_names = n.container_names.copy()
        return n


class FluxMLPolicySource(Struct, kw_only=True):
    """Settings for Flux."""

    num_proc_per_node: int | None = field(name="numProcPerNode", default=None)
    """Tasks on each node."""

    def set_defaults(self) -> None:
        if self.num_proc_per_node is None:
            self.num_proc_per_node = 1


class JAXMLPolicySource(Struct, kw_only=True):
    """JAX needs no settings."""


class JobStatus(Struct, kw_only=True):
    """How many Jobs of a replicated job are in which state."""

    name: str
    """Name of the replicated job."""
    ready: int
    """Jobs whose pods are all ready or done."""
    succeeded: int
    """Jobs that ended well."""
    failed: int
    """Jobs that failed."""
    active: int
    """Jobs with at least one pod that is pending or running."""
    suspended: int
    """Jobs that are suspended."""


class MPIMLPolicySource(Struct, kw_only=True):
    """Settings for MPI."""

    num_proc_per_node: int | None = field(name="numProcPerNode", default=None)
    """Slots on each node."""
    mpi_implementation: Literal["OpenMPI", ""] | None = field(name="mpiImplementation", default=None)
    """The MPI that the host file is written for."""
    ssh_auth_mount_path: str | None = field(name="sshAuthMountPath", default=None)
    """Directory in which the SSH keys are mounted."""
    run_launcher_as_node: bool | None = field(name="runLauncherAsNode", default=None)
    """Whether the launcher takes part in the training."""

    def set_defaults(self) -> None:
        if self.num_proc_per_node is None:
            self.num_proc_per_node = 1
        if self.mpi_implementation is None:
            self.mpi_implementation = "OpenMPI"
        if self.ssh_auth_mount_path is None:
            self.ssh_auth_mount_path = "/root/.ssh"
        if self.run_launcher_as_node is None:
            self.run_launcher_as_node = False


class Metric(Struct, kw_only=True):
    """One metric and its value."""

    name: str
    """Name of the metric."""
    value: str
    """Its value, as text."""


class NetworkTopologySpec(Struct, kw_only=True):
    """A limit on the distance of pods in the network."""

    mode: Literal["hard", "soft"] | None = None
    """Whether the limit must be kept (hard) or should be (soft)."""
    highest_tier_allowed: int | None = field(name="highestTierAllowed", default=None)
    """The highest tier that the pods may span."""

    def set_defaults(self) -> None:
        if self.mode is None:
            self.mode = "hard"
        if self.highest_tier_allowed is None:
            self.highest_tier_allowed = 1


class RuntimeRef(Struct, kw_only=True):
    """Names the runtime of a job."""

    name: str
    """Name of the runtime."""
    api_group: str | None = field(name="apiGroup", default=None)
    """API group of the runtime."""
    kind: str | None = None
    """ClusterTrainingRuntime, or TrainingRuntime for one in the job's own namespace."""

    def set_defaults(self) -> None:
        if self.api_group is None:
            self.api_group = "trainer.kubeflow.org"
        if self.kind is None:
            self.kind = "ClusterTrainingRuntime"


class TrainerStatus(Struct, kw_only=True):
    """Progress of the training, as the training process tells it."""

    progress_percentage: int | None = field(name="progressPercentage", default=None)
    """How much of the training is done, in percent."""
    estimated_remaining_seconds: int | None = field(name="estimatedRemainingSeconds", default=None)
    """Seconds left, as estimated."""
    metrics: list[Metric] | None = None
    """Current values of the metrics."""
    last_updated_time: str | None = field(name="lastUpdatedTime", default=None)
    """When these values were observed. Needed as soon as there is a trainer status."""

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.metrics is not None:
            n.metrics = [x.deepcopy() for x in n.metrics]
        return n


class UpdateTrainJobStatusRequest(Struct, kw_only=True):
    """Body of a request to the status server, and of its answer."""

    trainer_status: TrainerStatus | None = field(name="trainerStatus", default=None)
    """The new progress. Unset changes nothing."""

    @property
    def trainer_status_or_empty(self) -> TrainerStatus:
        return self.trainer_status or empty(TrainerStatus)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.trainer_status is not None:
            n.trainer_status = n.trainer_status.deepcopy()
        return n


class VolcanoPodGroupPolicySource(Struct, kw_only=True):
    """Settings for Volcano."""

    network_topology: NetworkTopologySpec | None = field(name="networkTopology", default=None)
    """How near to each other in the network the pods must be."""

    @property
    def network_topology_or_empty(self) -> NetworkTopologySpec:
        return self.network_topology or empty(NetworkTopologySpec)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.network_topology is not None:
            n.network_topology = n.network_topology.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.network_topology is not None:
            self.network_topology.set_defaults()


class XGBoostMLPolicySource(Struct, kw_only=True):
    """XGBoost needs no settings."""


class EnvInjection(Struct, kw_only=True):
    """Containers that receive the framework's environment variables beside the training container."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "targets": Merge("map", keys=("jobName",)),
    }

    targets: list[EnvInjectionTarget] | None = None
    """The containers, by replicated job."""

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.targets is not None:
            n.targets = [x.deepcopy() for x in n.targets]
        return n


class PodGroupPolicy(Struct, kw_only=True):
    """The gang scheduler of the pods."""

    coscheduling: CoschedulingPodGroupPolicySource | None = None
    """Coscheduling of the scheduler plugins."""
    volcano: VolcanoPodGroupPolicySource | None = None
    """Volcano."""

    @property
    def coscheduling_or_empty(self) -> CoschedulingPodGroupPolicySource:
        return self.coscheduling or empty(CoschedulingPodGroupPolicySource)

    @property
    def volcano_or_empty(self) -> VolcanoPodGroupPolicySource:
        return self.volcano or empty(VolcanoPodGroupPolicySource)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.coscheduling is not None:
            n.coscheduling = n.coscheduling.deepcopy()
        if n.volcano is not None:
            n.volcano = n.volcano.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.coscheduling is not None:
            self.coscheduling.set_defaults()
        if self.volcano is not None:
            self.volcano.set_defaults()


class TorchMLPolicySource(Struct, kw_only=True):
    """Settings for PyTorch."""

    env_injection: EnvInjection | None = field(name="envInjection", default=None)
    """Further containers that receive the PET_* variables."""

    @property
    def env_injection_or_empty(self) -> EnvInjection:
        return self.env_injection or empty(EnvInjection)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.env_injection is not None:
            n.env_injection = n.env_injection.deepcopy()
        return n


class TrainJobStatus(Struct, kw_only=True):
    """What has been observed of a job."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "conditions": Merge("map", keys=("type",)),
        "jobsStatus": Merge("map", keys=("name",)),
    }

    conditions: list[meta_v1.Condition] | None = None
    """Suspended, Complete, Failed and what hinders the job."""
    jobs_status: list[JobStatus] | None = field(name="jobsStatus", default=None)
    """Counters of each replicated job."""
    trainer_status: TrainerStatus | None = field(name="trainerStatus", default=None)
    """Progress as told by the training process."""

    @property
    def trainer_status_or_empty(self) -> TrainerStatus:
        return self.trainer_status or empty(TrainerStatus)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.conditions is not None:
            n.conditions = [x.deepcopy() for x in n.conditions]
        if n.jobs_status is not None:
            n.jobs_status = [x.deepcopy() for x in n.jobs_status]
        if n.trainer_status is not None:
            n.trainer_status = n.trainer_status.deepcopy()
        return n


class ContainerPatch(Struct, kw_only=True):
    """Changes to one container."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "env": Merge("map", keys=("name",), patch=("merge",), patch_key="name"),
        "volumeMounts": Merge("map", keys=("name",), patch=("merge",), patch_key="mountPath"),
    }

    name: str
    """The container to change; the runtime must have it."""
    env: list[core_v1.EnvVar] | None = None
    """Environment variables to add or replace. Not for containers that have their own field in the job."""
    volume_mounts: list[core_v1.VolumeMount] | None = field(name="volumeMounts", default=None)
    """Volume mounts to add or change, one per volume."""
    security_context: core_v1.SecurityContext | None = field(name="securityContext", default=None)
    """Security settings of the container."""

    @property
    def security_context_or_empty(self) -> core_v1.SecurityContext:
        return self.security_context or empty(core_v1.SecurityContext)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.env is not None:
            n.env = [x.deepcopy() for x in n.env]
        if n.volume_mounts is not None:
            n.volume_mounts = [x.deepcopy() for x in n.volume_mounts]
        if n.security_context is not None:
            n.security_context = n.security_context.deepcopy()
        return n

    def set_defaults(self) -> None:
        for each_env in self.env or ():
            each_env.set_defaults()


class DatasetInitializer(Struct, kw_only=True):
    """Where the dataset comes from."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "env": Merge("map", keys=("name",)),
        "secretRef": Merge("atomic"),
    }

    storage_uri: str | None = field(name="storageUri", default=None)
    """Source of the dataset, such as hf://owner/name."""
    env: list[core_v1.EnvVar] | None = None
    """Environment variables for the dataset container; a variable of the same name is replaced."""
    secret_ref: core_v1.LocalObjectReference | None = field(name="secretRef", default=None)
    """A Secret in the job's namespace whose keys become environment variables, such as access tokens."""

    @property
    def secret_ref_or_empty(self) -> core_v1.LocalObjectReference:
        return self.secret_ref or empty(core_v1.LocalObjectReference)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.env is not None:
            n.env = [x.deepcopy() for x in n.env]
        if n.secret_ref is not None:
            n.secret_ref = n.secret_ref.deepcopy()
        return n

    def set_defaults(self) -> None:
        for each_env in self.env or ():
            each_env.set_defaults()
        if self.secret_ref is not None:
            self.secret_ref.set_defaults()


class MLPolicy(Struct, kw_only=True):
    """Number of nodes and at most one framework; without any, the job runs as it is written."""

    num_nodes: int | None = field(name="numNodes", default=None)
    """Number of training nodes. Unset means one."""
    torch: TorchMLPolicySource | None = None
    """PyTorch, started by torchrun."""
    mpi: MPIMLPolicySource | None = None
    """A launcher that starts processes over SSH."""
    flux: FluxMLPolicySource | None = None
    """A Flux instance over the nodes."""
    jax: JAXMLPolicySource | None = None
    """JAX with its distributed coordinator."""
    xgboost: XGBoostMLPolicySource | None = None
    """XGBoost with its tracker."""

    @property
    def torch_or_empty(self) -> TorchMLPolicySource:
        return self.torch or empty(TorchMLPolicySource)

    @property
    def mpi_or_empty(self) -> MPIMLPolicySource:
        return self.mpi or empty(MPIMLPolicySource)

    @property
    def flux_or_empty(self) -> FluxMLPolicySource:
        return self.flux or empty(FluxMLPolicySource)

    @property
    def jax_or_empty(self) -> JAXMLPolicySource:
        return self.jax or empty(JAXMLPolicySource)

    @property
    def xgboost_or_empty(self) -> XGBoostMLPolicySource:
        return self.xgboost or empty(XGBoostMLPolicySource)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.torch is not None:
            n.torch = n.torch.deepcopy()
        if n.mpi is not None:
            n.mpi = n.mpi.deepcopy()
        if n.flux is not None:
            n.flux = n.flux.deepcopy()
        if n.jax is not None:
            n.jax = n.jax.deepcopy()
        if n.xgboost is not None:
            n.xgboost = n.xgboost.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.mpi is not None:
            self.mpi.set_defaults()
        if self.flux is not None:
            self.flux.set_defaults()


class ModelInitializer(Struct, kw_only=True):
    """Where the pre-trained model comes from."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "env": Merge("map", keys=("name",)),
        "secretRef": Merge("atomic"),
    }

    storage_uri: str | None = field(name="storageUri", default=None)
    """Source of the model, such as hf://owner/name."""
    env: list[core_v1.EnvVar] | None = None
    """Environment variables for the model container; a variable of the same name is replaced."""
    secret_ref: core_v1.LocalObjectReference | None = field(name="secretRef", default=None)
    """A Secret in the job's namespace whose keys become environment variables, such as access tokens."""

    @property
    def secret_ref_or_empty(self) -> core_v1.LocalObjectReference:
        return self.secret_ref or empty(core_v1.LocalObjectReference)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.env is not None:
            n.env = [x.deepcopy() for x in n.env]
        if n.secret_ref is not None:
            n.secret_ref = n.secret_ref.deepcopy()
        return n

    def set_defaults(self) -> None:
        for each_env in self.env or ():
            each_env.set_defaults()
        if self.secret_ref is not None:
            self.secret_ref.set_defaults()


class Trainer(Struct, kw_only=True):
    """What the job changes in the trainer step of its runtime."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "env": Merge("map", keys=("name",)),
    }

    image: str | None = None
    """Image of the training container."""
    command: list[str] | None = None
    """Entry point of the training container."""
    args: list[str] | None = None
    """Arguments of the entry point."""
    env: list[core_v1.EnvVar] | None = None
    """Environment variables for the training container; a variable of the same name is replaced."""
    num_nodes: int | None = field(name="numNodes", default=None)
    """Number of training nodes, each of them one pod. Unset means the runtime's number."""
    num_proc_per_node: int | None = field(name="numProcPerNode", default=None)
    """Processes on each node. Unset lets the framework decide."""
    resources_per_node: core_v1.ResourceRequirements | None = field(name="resourcesPerNode", default=None)
    """Resources of each node, laid over the runtime's, resource by resource."""

    @property
    def resources_per_node_or_empty(self) -> core_v1.ResourceRequirements:
        return self.resources_per_node or empty(core_v1.ResourceRequirements)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.command is not None:
            n.command = n.command.copy()
        if n.args is not None:
            n.args = n.args.copy()
        if n.env is not None:
            n.env = [x.deepcopy() for x in n.env]
        if n.resources_per_node is not None:
            n.resources_per_node = n.resources_per_node.deepcopy()
        return n

    def set_defaults(self) -> None:
        for each_env in self.env or ():
            each_env.set_defaults()


class Initializer(Struct, kw_only=True):
    """Downloads that run before the trainer."""

    dataset: DatasetInitializer | None = None
    """The dataset step."""
    model: ModelInitializer | None = None
    """The model step."""

    @property
    def dataset_or_empty(self) -> DatasetInitializer:
        return self.dataset or empty(DatasetInitializer)

    @property
    def model_or_empty(self) -> ModelInitializer:
        return self.model or empty(ModelInitializer)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.dataset is not None:
            n.dataset = n.dataset.deepcopy()
        if n.model is not None:
            n.model = n.model.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.dataset is not None:
            self.dataset.set_defaults()
        if self.model is not None:
            self.model.set_defaults()


class PodSpecPatch(Struct, kw_only=True):
    """The part of a pod that a patch may change."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "volumes": Merge("map", keys=("name",), patch=("merge", "retainKeys"), patch_key="name"),
        "initContainers": Merge("map", keys=("name",), patch=("merge",), patch_key="name"),
        "containers": Merge("map", keys=("name",), patch=("merge",), patch_key="name"),
        "schedulingGates": Merge("map", keys=("name",), patch=("merge",), patch_key="name"),
        "imagePullSecrets": Merge("map", keys=("name",), patch=("merge",), patch_key="name"),
    }

    service_account_name: str | None = field(name="serviceAccountName", default=None)
    """Service account of the pods."""
    node_selector: dict[str, str] | None = field(name="nodeSelector", default=None)
    """Labels that a node must carry."""
    affinity: core_v1.Affinity | None = None
    """Affinity of the pods."""
    tolerations: list[core_v1.Toleration] | None = None
    """Tolerations of the pods; they replace those of the runtime."""
    volumes: list[core_v1.Volume] | None = None
    """Volumes to add or change, found by name."""
    init_containers: list[ContainerPatch] | None = field(name="initContainers", default=None)
    """Changes to init containers, found by name."""
    containers: list[ContainerPatch] | None = None
    """Changes to containers, found by name."""
    scheduling_gates: list[core_v1.PodSchedulingGate] | None = field(name="schedulingGates", default=None)
    """Gates that hold the pods back from scheduling."""
    image_pull_secrets: list[core_v1.LocalObjectReference] | None = field(name="imagePullSecrets", default=None)
    """Secrets for pulling images."""
    security_context: core_v1.PodSecurityContext | None = field(name="securityContext", default=None)
    """Security settings of the pods."""
    termination_grace_period_seconds: int | None = field(name="terminationGracePeriodSeconds", default=None)
    """Seconds that a pod has to stop."""

    @property
    def affinity_or_empty(self) -> core_v1.Affinity:
        return self.affinity or empty(core_v1.Affinity)

    @property
    def security_context_or_empty(self) -> core_v1.PodSecurityContext:
        return self.security_context or empty(core_v1.PodSecurityContext)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.node_selector is not None:
            n.node_selector = n.node_selector.copy()
        if n.affinity is not None:
            n.affinity = n.affinity.deepcopy()
        if n.tolerations is not None:
            n.tolerations = [x.deepcopy() for x in n.tolerations]
        if n.volumes is not None:
            n.volumes = [x.deepcopy() for x in n.volumes]
        if n.init_containers is not None:
            n.init_containers = [x.deepcopy() for x in n.init_containers]
        if n.containers is not None:
            n.containers = [x.deepcopy() for x in n.containers]
        if n.scheduling_gates is not None:
            n.scheduling_gates = [x.deepcopy() for x in n.scheduling_gates]
        if n.image_pull_secrets is not None:
            n.image_pull_secrets = [x.deepcopy() for x in n.image_pull_secrets]
        if n.security_context is not None:
            n.security_context = n.security_context.deepcopy()
        return n

    def set_defaults(self) -> None:
        for each_volumes in self.volumes or ():
            each_volumes.set_defaults()
        for each_init_containers in self.init_containers or ():
            each_init_containers.set_defaults()
        for each_containers in self.containers or ():
            each_containers.set_defaults()
        for each_image_pull_secrets in self.image_pull_secrets or ():
            each_image_pull_secrets.set_defaults()


class PodTemplatePatch(Struct, kw_only=True):
    """Changes to a pod template."""

    metadata: meta_v1.ObjectMeta | None = None
    """Labels and annotations to add to the pods."""
    spec: PodSpecPatch | None = None
    """Changes to the pods themselves."""

    @property
    def metadata_or_empty(self) -> meta_v1.ObjectMeta:
        return self.metadata or empty(meta_v1.ObjectMeta)

    @property
    def spec_or_empty(self) -> PodSpecPatch:
        return self.spec or empty(PodSpecPatch)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.metadata is not None:
            n.metadata = n.metadata.deepcopy()
        if n.spec is not None:
            n.spec = n.spec.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.spec is not None:
            self.spec.set_defaults()


class JobSpecPatch(Struct, kw_only=True):
    """The part of a Job that a patch may change."""

    template: PodTemplatePatch | None = None
    """Changes to the pod template."""

    @property
    def template_or_empty(self) -> PodTemplatePatch:
        return self.template or empty(PodTemplatePatch)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.template is not None:
            n.template = n.template.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.template is not None:
            self.template.set_defaults()


class JobTemplatePatch(Struct, kw_only=True):
    """Changes to a Job template."""

    metadata: meta_v1.ObjectMeta | None = None
    """Labels and annotations to add to the Jobs."""
    spec: JobSpecPatch | None = None
    """Changes to the Job itself."""

    @property
    def metadata_or_empty(self) -> meta_v1.ObjectMeta:
        return self.metadata or empty(meta_v1.ObjectMeta)

    @property
    def spec_or_empty(self) -> JobSpecPatch:
        return self.spec or empty(JobSpecPatch)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.metadata is not None:
            n.metadata = n.metadata.deepcopy()
        if n.spec is not None:
            n.spec = n.spec.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.spec is not None:
            self.spec.set_defaults()


class ReplicatedJobPatch(Struct, kw_only=True):
    """Changes to one replicated job."""

    name: str
    """The replicated job to change; the runtime must have it."""
    template: JobTemplatePatch | None = None
    """Changes to its Job template."""

    @property
    def template_or_empty(self) -> JobTemplatePatch:
        return self.template or empty(JobTemplatePatch)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.template is not None:
            n.template = n.template.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.template is not None:
            self.template.set_defaults()


class JobSetSpecPatch(Struct, kw_only=True):
    """The part of a JobSet that a patch may change."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "replicatedJobs": Merge("map", keys=("name",), patch=("merge",), patch_key="name"),
    }

    replicated_jobs: list[ReplicatedJobPatch] | None = field(name="replicatedJobs", default=None)
    """Changes to replicated jobs, found by name."""

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.replicated_jobs is not None:
            n.replicated_jobs = [x.deepcopy() for x in n.replicated_jobs]
        return n

    def set_defaults(self) -> None:
        for each_replicated_jobs in self.replicated_jobs or ():
            each_replicated_jobs.set_defaults()


class JobSetTemplatePatch(Struct, kw_only=True):
    """Changes to the JobSet template of a runtime."""

    metadata: meta_v1.ObjectMeta | None = None
    """Labels and annotations to add to the JobSet."""
    spec: JobSetSpecPatch | None = None
    """Changes to the JobSet itself."""

    @property
    def metadata_or_empty(self) -> meta_v1.ObjectMeta:
        return self.metadata or empty(meta_v1.ObjectMeta)

    @property
    def spec_or_empty(self) -> JobSetSpecPatch:
        return self.spec or empty(JobSetSpecPatch)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.metadata is not None:
            n.metadata = n.metadata.deepcopy()
        if n.spec is not None:
            n.spec = n.spec.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.spec is not None:
            self.spec.set_defaults()


class TrainingRuntimeSpecPatch(Struct, kw_only=True):
    """The part of a runtime that a patch may change."""

    template: JobSetTemplatePatch | None = None
    """Changes to the JobSet template."""

    @property
    def template_or_empty(self) -> JobSetTemplatePatch:
        return self.template or empty(JobSetTemplatePatch)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.template is not None:
            n.template = n.template.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.template is not None:
            self.template.set_defaults()


class JobSetTemplateSpec(Struct, kw_only=True):
    """The JobSet that a job becomes."""

    metadata: meta_v1.ObjectMeta | None = None
    """Labels and annotations of the JobSet. Name and namespace are the job's."""
    spec: jobset_v1alpha2.JobSetSpec | None = None
    """The JobSet itself."""

    @property
    def metadata_or_empty(self) -> meta_v1.ObjectMeta:
        return self.metadata or empty(meta_v1.ObjectMeta)

    @property
    def spec_or_empty(self) -> jobset_v1alpha2.JobSetSpec:
        return self.spec or empty(jobset_v1alpha2.JobSetSpec)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.metadata is not None:
            n.metadata = n.metadata.deepcopy()
        if n.spec is not None:
            n.spec = n.spec.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.spec is not None:
            self.spec.set_defaults()


class RuntimePatch(Struct, kw_only=True):
    """The changes that one owner makes to the runtime's template."""

    manager: str
    """The owner of this entry, as a domain-prefixed path such as example.com/tuner."""
    time: str | None = None
    """When this entry was last written; set by the manager's webhook."""
    training_runtime_spec: TrainingRuntimeSpecPatch | None = field(name="trainingRuntimeSpec", default=None)
    """Changes to a TrainingRuntime or ClusterTrainingRuntime."""

    @property
    def training_runtime_spec_or_empty(self) -> TrainingRuntimeSpecPatch:
        return self.training_runtime_spec or empty(TrainingRuntimeSpecPatch)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.training_runtime_spec is not None:
            n.training_runtime_spec = n.training_runtime_spec.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.training_runtime_spec is not None:
            self.training_runtime_spec.set_defaults()


class TrainJobSpec(Struct, kw_only=True):
    """The wish of whoever created the job."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "runtimePatches": Merge("map", keys=("manager",)),
    }

    runtime_ref: RuntimeRef = field(name="runtimeRef")
    """The runtime whose blueprint the job is made from. It cannot be changed."""
    initializer: Initializer | None = None
    """What is downloaded before training starts."""
    trainer: Trainer | None = None
    """Values that replace those of the runtime's trainer step."""
    runtime_patches: list[RuntimePatch] | None = field(name="runtimePatches", default=None)
    """Changes to the runtime's template, one entry per owner, laid over it in this order."""
    suspend: bool | None = None
    """True stops the job's pods and keeps the job; false (re)starts them."""
    managed_by: str | None = field(name="managedBy", default=None)
    """The controller that is responsible for the job. Ours leaves jobs of another one alone."""
    active_deadline_seconds: int | None = field(name="activeDeadlineSeconds", default=None)
    """Seconds that the job may run, counted from its creation or its last resume; then it fails. Unset means no
    limit.
    """

    @property
    def initializer_or_empty(self) -> Initializer:
        return self.initializer or empty(Initializer)

    @property
    def trainer_or_empty(self) -> Trainer:
        return self.trainer or empty(Trainer)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        n.runtime_ref = n.runtime_ref.deepcopy()
        if n.initializer is not None:
            n.initializer = n.initializer.deepcopy()
        if n.trainer is not None:
            n.trainer = n.trainer.deepcopy()
        if n.runtime_patches is not None:
            n.runtime_patches = [x.deepcopy() for x in n.runtime_patches]
        return n

    def set_defaults(self) -> None:
        if self.suspend is None:
            self.suspend = False
        if self.managed_by is None:
            self.managed_by = "trainer.kubeflow.org/trainjob-controller"
        self.runtime_ref.set_defaults()
        if self.initializer is not None:
            self.initializer.set_defaults()
        if self.trainer is not None:
            self.trainer.set_defaults()
        for each_runtime_patches in self.runtime_patches or ():
            each_runtime_patches.set_defaults()


class TrainingRuntimeSpec(Struct, kw_only=True):
    """A blueprint of training jobs, shared by both kinds of runtime."""

    ml_policy: MLPolicy | None = field(name="mlPolicy", default=None)
    """How the framework is set up."""
    pod_group_policy: PodGroupPolicy | None = field(name="podGroupPolicy", default=None)
    """How the pods are scheduled as a gang."""
    template: JobSetTemplateSpec | None = None
    """The JobSet that a job becomes."""

    @property
    def ml_policy_or_empty(self) -> MLPolicy:
        return self.ml_policy or empty(MLPolicy)

    @property
    def pod_group_policy_or_empty(self) -> PodGroupPolicy:
        return self.pod_group_policy or empty(PodGroupPolicy)

    @property
    def template_or_empty(self) -> JobSetTemplateSpec:
        return self.template or empty(JobSetTemplateSpec)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.ml_policy is not None:
            n.ml_policy = n.ml_policy.deepcopy()
        if n.pod_group_policy is not None:
            n.pod_group_policy = n.pod_group_policy.deepcopy()
        if n.template is not None:
            n.template = n.template.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.ml_policy is not None:
            self.ml_policy.set_defaults()
        if self.pod_group_policy is not None:
            self.pod_group_policy.set_defaults()
        if self.template is not None:
            self.template.set_defaults()


class ClusterTrainingRuntime(Object, kw_only=True):
    """A blueprint for training jobs of every namespace."""

    RESOURCE: ClassVar[Resource] = Resource(
        group="trainer.kubeflow.org",
        version="v1alpha1",
        kind="ClusterTrainingRuntime",
        plural="clustertrainingruntimes",
        namespaced=False,
    )

    api_version: str | None = field(name="apiVersion", default=None)
    kind: str | None = None
    metadata: meta_v1.ObjectMeta | None = None
    spec: TrainingRuntimeSpec | None = None
    """The blueprint."""

    @property
    def metadata_or_empty(self) -> meta_v1.ObjectMeta:
        return self.metadata or empty(meta_v1.ObjectMeta)

    @property
    def spec_or_empty(self) -> TrainingRuntimeSpec:
        return self.spec or empty(TrainingRuntimeSpec)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.metadata is not None:
            n.metadata = n.metadata.deepcopy()
        if n.spec is not None:
            n.spec = n.spec.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.spec is not None:
            self.spec.set_defaults()


class TrainJob(Object, kw_only=True):
    """One training run, made from a runtime's blueprint."""

    RESOURCE: ClassVar[Resource] = Resource(
        group="trainer.kubeflow.org",
        version="v1alpha1",
        kind="TrainJob",
        plural="trainjobs",
        namespaced=True,
    )

    api_version: str | None = field(name="apiVersion", default=None)
    kind: str | None = None
    metadata: meta_v1.ObjectMeta | None = None
    spec: TrainJobSpec | None = None
    """What the job should do."""
    status: TrainJobStatus | None = None
    """What has been observed of the job; written by the manager."""

    @property
    def metadata_or_empty(self) -> meta_v1.ObjectMeta:
        return self.metadata or empty(meta_v1.ObjectMeta)

    @property
    def spec_or_empty(self) -> TrainJobSpec:
        return self.spec or empty(TrainJobSpec)

    @property
    def status_or_empty(self) -> TrainJobStatus:
        return self.status or empty(TrainJobStatus)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.metadata is not None:
            n.metadata = n.metadata.deepcopy()
        if n.spec is not None:
            n.spec = n.spec.deepcopy()
        if n.status is not None:
            n.status = n.status.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.spec is not None:
            self.spec.set_defaults()


class TrainingRuntime(Object, kw_only=True):
    """A blueprint for training jobs of one namespace."""

    RESOURCE: ClassVar[Resource] = Resource(
        group="trainer.kubeflow.org",
        version="v1alpha1",
        kind="TrainingRuntime",
        plural="trainingruntimes",
        namespaced=True,
    )

    api_version: str | None = field(name="apiVersion", default=None)
    kind: str | None = None
    metadata: meta_v1.ObjectMeta | None = None
    spec: TrainingRuntimeSpec | None = None
    """The blueprint."""

    @property
    def metadata_or_empty(self) -> meta_v1.ObjectMeta:
        return self.metadata or empty(meta_v1.ObjectMeta)

    @property
    def spec_or_empty(self) -> TrainingRuntimeSpec:
        return self.spec or empty(TrainingRuntimeSpec)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.metadata is not None:
            n.metadata = n.metadata.deepcopy()
        if n.spec is not None:
            n.spec = n.spec.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.spec is not None:
            self.spec.set_defaults()
