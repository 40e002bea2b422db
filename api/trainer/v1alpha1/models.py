# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
# ruff: noqa: RUF100, C901, E501, PLC0415, PLR0912, PLR0915, S105
# fmt: off
"""The structs of trainer.kubeflow.org/v1alpha1; import them from the package."""

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

from msgspec import convert, field

from trainwright.api.base import Merge, Object, Resource, Struct, empty
from trainwright.api.jobset.v1alpha2 import models as jobset_v1alpha2
from trainwright.api.kubernetes.core.v1 import models as core_v1
from trainwright.api.kubernetes.meta.v1 import models as meta_v1


class CategoricalSpace(Struct, kw_only=True):
    """A list of values."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "choices": Merge("set"),
    }

    choices: list[str]
    """The values, without duplicates."""

    def deepcopy(self) -> Self:
        n = self.__copy__()
        n.choices = n.choices.copy()
        return n


class CoschedulingPodGroupPolicySource(Struct, kw_only=True):
    """Settings for coscheduling."""

    schedule_timeout_seconds: int | None = field(name="scheduleTimeoutSeconds", default=None)
    """Seconds that the gang may wait until all of its pods can be scheduled."""

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
    """Names of containers and init containers of the replicated job."""

    def deepcopy(self) -> Self:
        n = self.__copy__()
        n.container_names = n.container_names.copy()
        return n


class FluxMLPolicySource(Struct, kw_only=True):
    """Settings for Flux."""

    num_proc_per_node: int | None = field(name="numProcPerNode", default=None)
    """Number of Flux tasks on each node."""

    def set_defaults(self) -> None:
        if self.num_proc_per_node is None:
            self.num_proc_per_node = 1


class GridSearch(Struct, kw_only=True):
    """Each combination of the choices is tried once, in a fixed order. All parameters must be categorical."""


class JAXMLPolicySource(Struct, kw_only=True):
    """Settings for JAX. There are none."""


class JobStatus(Struct, kw_only=True):
    """Number of Jobs of one replicated job, by state."""

    name: str
    """Name of the replicated job."""
    ready: int
    """Jobs whose pods are all ready or succeeded."""
    succeeded: int
    """Jobs that succeeded."""
    failed: int
    """Jobs that failed."""
    active: int
    """Jobs with at least one pod that is pending or running."""
    suspended: int
    """Jobs that are suspended."""


class LogUniformSpace(Struct, kw_only=True):
    """Numbers from min to max, whose logarithms are equally likely."""

    min: str
    """Smallest value, as a decimal number. Greater than 0."""
    max: str
    """Largest value, as a decimal number."""
    type: Literal["Int", "Float"] | None = None
    """Int for whole numbers, or Float."""

    def set_defaults(self) -> None:
        if self.type is None:
            self.type = "Float"


class MPIMLPolicySource(Struct, kw_only=True):
    """Settings for MPI."""

    num_proc_per_node: int | None = field(name="numProcPerNode", default=None)
    """Number of MPI slots on each node."""
    mpi_implementation: Literal["OpenMPI", ""] | None = field(name="mpiImplementation", default=None)
    """MPI implementation. It determines the format of the host file and the variables of the launcher."""
    ssh_auth_mount_path: str | None = field(name="sshAuthMountPath", default=None)
    """Directory in which the SSH keys are mounted."""
    run_launcher_as_node: bool | None = field(name="runLauncherAsNode", default=None)
    """True if the launcher also runs training processes."""

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
    """Value of the metric, as text."""


class NetworkTopologySpec(Struct, kw_only=True):
    """Limit on the network distance between the pods."""

    mode: Literal["hard", "soft"] | None = None
    """hard if the pods must keep the limit, soft if the scheduler should try."""
    highest_tier_allowed: int | None = field(name="highestTierAllowed", default=None)
    """Highest network tier that the pods may span."""

    def set_defaults(self) -> None:
        if self.mode is None:
            self.mode = "hard"
        if self.highest_tier_allowed is None:
            self.highest_tier_allowed = 1


class Objective(Struct, kw_only=True):
    """A metric that the training reports, and whether it shall be small or large."""

    metric: str
    """Name of the metric, as the training reports it."""
    direction: Literal["Maximize", "Minimize"] | None = None
    """Minimize or Maximize."""

    def set_defaults(self) -> None:
        if self.direction is None:
            self.direction = "Minimize"


class ParameterAssignment(Struct, kw_only=True):
    """A parameter and its value."""

    name: str
    """Name of the parameter."""
    value: str
    """Value of the parameter, as text."""


class RandomSearch(Struct, kw_only=True):
    """Values are drawn at random."""

    seed: int | None = None
    """The same seed gives the same parameters. Without it, each OptimizationJob has its own."""


class RuntimeRef(Struct, kw_only=True):
    """Reference to a TrainingRuntime or a ClusterTrainingRuntime."""

    name: str
    """Name of the runtime."""
    api_group: str | None = field(name="apiGroup", default=None)
    """API group of the runtime."""
    kind: str | None = None
    """ClusterTrainingRuntime, or TrainingRuntime for a runtime in the namespace of the job."""

    def set_defaults(self) -> None:
        if self.api_group is None:
            self.api_group = "trainer.kubeflow.org"
        if self.kind is None:
            self.kind = "ClusterTrainingRuntime"


class SearchAlgorithm(Struct, kw_only=True):
    """How the parameters of the trials are chosen."""

    random: RandomSearch | None = None
    """Values are drawn at random."""
    grid: GridSearch | None = None
    """Each combination of the choices is tried once, in a fixed order."""

    @property
    def random_or_empty(self) -> RandomSearch:
        return self.random or empty(RandomSearch)

    @property
    def grid_or_empty(self) -> GridSearch:
        return self.grid or empty(GridSearch)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.random is not None:
            n.random = n.random.deepcopy()
        if n.grid is not None:
            n.grid = n.grid.deepcopy()
        return n


class TrainerStatus(Struct, kw_only=True):
    """Progress that the training process reported."""

    progress_percentage: int | None = field(name="progressPercentage", default=None)
    """Share of the training that is done, in percent."""
    estimated_remaining_seconds: int | None = field(name="estimatedRemainingSeconds", default=None)
    """Estimated seconds until the training ends."""
    metrics: list[Metric] | None = None
    """Latest values of the metrics."""
    last_updated_time: str | None = field(name="lastUpdatedTime", default=None)
    """Time at which these values were observed. Required."""

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.metrics is not None:
            n.metrics = [x.deepcopy() for x in n.metrics]
        return n


class UniformSpace(Struct, kw_only=True):
    """Numbers from min to max, all equally likely."""

    min: str
    """Smallest value, as a decimal number."""
    max: str
    """Largest value, as a decimal number."""
    type: Literal["Int", "Float"] | None = None
    """Int for whole numbers, or Float."""

    def set_defaults(self) -> None:
        if self.type is None:
            self.type = "Float"


class UpdateTrainJobStatusRequest(Struct, kw_only=True):
    """Body of a request to the status server, and of its response."""

    trainer_status: TrainerStatus | None = field(name="trainerStatus", default=None)
    """The new progress. Without it, nothing changes."""

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
    """How close to each other in the network the pods must be."""

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
    """Settings for XGBoost. There are none."""


class EnvInjection(Struct, kw_only=True):
    """Containers that get the framework's environment variables, in addition to the training container."""

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


class OptimizationResult(Struct, kw_only=True):
    """The best trial and its parameters."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "parameters": Merge("map", keys=("name",)),
    }

    train_job_name: str = field(name="trainJobName")
    """Name of the best trial's TrainJob."""
    parameters: list[ParameterAssignment] | None = None
    """Parameters of the best trial."""

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.parameters is not None:
            n.parameters = [x.deepcopy() for x in n.parameters]
        return n


class PodGroupPolicy(Struct, kw_only=True):
    """Gang scheduler of the pods: coscheduling or Volcano."""

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


class SearchSpace(Struct, kw_only=True):
    """The values that a parameter may have. Exactly one of its fields is set."""

    uniform: UniformSpace | None = None
    """Numbers of a range, all equally likely."""
    log_uniform: LogUniformSpace | None = field(name="logUniform", default=None)
    """Numbers of a range, whose logarithms are equally likely."""
    categorical: CategoricalSpace | None = None
    """A list of values."""

    @property
    def uniform_or_empty(self) -> UniformSpace:
        return self.uniform or empty(UniformSpace)

    @property
    def log_uniform_or_empty(self) -> LogUniformSpace:
        return self.log_uniform or empty(LogUniformSpace)

    @property
    def categorical_or_empty(self) -> CategoricalSpace:
        return self.categorical or empty(CategoricalSpace)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.uniform is not None:
            n.uniform = n.uniform.deepcopy()
        if n.log_uniform is not None:
            n.log_uniform = n.log_uniform.deepcopy()
        if n.categorical is not None:
            n.categorical = n.categorical.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.uniform is not None:
            self.uniform.set_defaults()
        if self.log_uniform is not None:
            self.log_uniform.set_defaults()


class TorchMLPolicySource(Struct, kw_only=True):
    """Settings for PyTorch."""

    env_injection: EnvInjection | None = field(name="envInjection", default=None)
    """Further containers that get the PET_* environment variables."""

    @property
    def env_injection_or_empty(self) -> EnvInjection:
        return self.env_injection or empty(EnvInjection)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.env_injection is not None:
            n.env_injection = n.env_injection.deepcopy()
        return n


class TrainJobStatus(Struct, kw_only=True):
    """Current state of a TrainJob."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "conditions": Merge("map", keys=("type",)),
        "jobsStatus": Merge("map", keys=("name",)),
    }

    conditions: list[meta_v1.Condition] | None = None
    """Conditions of the job. Suspended, Complete and Failed say its state; others say what it waits for."""
    jobs_status: list[JobStatus] | None = field(name="jobsStatus", default=None)
    """Number of Jobs by state, for each replicated job."""
    trainer_status: TrainerStatus | None = field(name="trainerStatus", default=None)
    """Progress that the training process reported last."""

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
    """Name of the container to change. The runtime must have one of this name."""
    env: list[core_v1.EnvVar] | None = None
    """Environment variables to add or to replace. For the training, dataset and model containers, use trainer.env
    and initializer instead.
    """
    volume_mounts: list[core_v1.VolumeMount] | None = field(name="volumeMounts", default=None)
    """Volume mounts to add or to change, by mount path."""
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
    """Source of the dataset, and how to sign in there."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "env": Merge("map", keys=("name",)),
        "secretRef": Merge("atomic"),
    }

    storage_uri: str | None = field(name="storageUri", default=None)
    """URI of the dataset, such as hf://owner/name or s3://bucket/path. The scheme selects the storage."""
    env: list[core_v1.EnvVar] | None = None
    """Environment variables of the dataset container. They replace variables of the same name in the runtime."""
    secret_ref: core_v1.LocalObjectReference | None = field(name="secretRef", default=None)
    """Secret in the namespace of the job. Each of its keys becomes an environment variable of the container, such
    as ACCESS_TOKEN.
    """

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
    """Number of nodes, and at most one framework. Without a framework the containers run as the template says."""

    num_nodes: int | None = field(name="numNodes", default=None)
    """Number of training nodes. The default is 1."""
    torch: TorchMLPolicySource | None = None
    """PyTorch. torchrun starts the processes."""
    mpi: MPIMLPolicySource | None = None
    """MPI. A launcher starts the processes over SSH."""
    flux: FluxMLPolicySource | None = None
    """Flux. One Flux instance spans the nodes."""
    jax: JAXMLPolicySource | None = None
    """JAX, with its distributed coordinator."""
    xgboost: XGBoostMLPolicySource | None = None
    """XGBoost, with its tracker."""

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
    """Source of the pre-trained model, and how to sign in there."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "env": Merge("map", keys=("name",)),
        "secretRef": Merge("atomic"),
    }

    storage_uri: str | None = field(name="storageUri", default=None)
    """URI of the model, such as hf://owner/name or s3://bucket/path. The scheme selects the storage."""
    env: list[core_v1.EnvVar] | None = None
    """Environment variables of the model container. They replace variables of the same name in the runtime."""
    secret_ref: core_v1.LocalObjectReference | None = field(name="secretRef", default=None)
    """Secret in the namespace of the job. Each of its keys becomes an environment variable of the container, such
    as ACCESS_TOKEN.
    """

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


class OptimizationJobStatus(Struct, kw_only=True):
    """Current state of a search."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "conditions": Merge("map", keys=("type",)),
    }

    conditions: list[meta_v1.Condition] | None = None
    """Created, Complete and Failed say the state of the search; TrialsEnded, TrialsRunning, TrialsFailed and
    BestTrial show counts and the best value in their messages.
    """
    result: OptimizationResult | None = None
    """The best trial so far."""

    @property
    def result_or_empty(self) -> OptimizationResult:
        return self.result or empty(OptimizationResult)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.conditions is not None:
            n.conditions = [x.deepcopy() for x in n.conditions]
        if n.result is not None:
            n.result = n.result.deepcopy()
        return n


class ParameterSpec(Struct, kw_only=True):
    """A parameter to search."""

    name: str
    """Name of the parameter."""
    search_space: SearchSpace = field(name="searchSpace")
    """The values that the parameter may have."""

    def deepcopy(self) -> Self:
        n = self.__copy__()
        n.search_space = n.search_space.deepcopy()
        return n

    def set_defaults(self) -> None:
        self.search_space.set_defaults()


class Trainer(Struct, kw_only=True):
    """Settings of the training, in place of the runtime's."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "env": Merge("map", keys=("name",)),
    }

    image: str | None = None
    """Container image of the training."""
    command: list[str] | None = None
    """Command of the training container. It replaces the runtime's command."""
    args: list[str] | None = None
    """Arguments of the command. They replace the runtime's arguments."""
    env: list[core_v1.EnvVar] | None = None
    """Environment variables of the training container. They replace variables of the same name in the runtime."""
    num_nodes: int | None = field(name="numNodes", default=None)
    """Number of training nodes. Each node is one pod. The default is the runtime's number."""
    num_proc_per_node: int | None = field(name="numProcPerNode", default=None)
    """Number of training processes on each node. The default is the framework's, such as one for each GPU."""
    resources_per_node: core_v1.ResourceRequirements | None = field(name="resourcesPerNode", default=None)
    """Compute resources of each node. A resource that is not listed keeps the runtime's amount."""

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
    """Steps that download the dataset and the model before the training starts."""

    dataset: DatasetInitializer | None = None
    """Download of the dataset. The runtime needs a replicated job for it."""
    model: ModelInitializer | None = None
    """Download of the model. The runtime needs a replicated job for it."""

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
    """Fields of a pod's spec that a patch may change."""

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
    """Labels that a node must have to run the pods."""
    affinity: core_v1.Affinity | None = None
    """Scheduling constraints of the pods."""
    tolerations: list[core_v1.Toleration] | None = None
    """Tolerations of the pods; they replace those of the runtime."""
    volumes: list[core_v1.Volume] | None = None
    """Volumes to add or to change, by name."""
    init_containers: list[ContainerPatch] | None = field(name="initContainers", default=None)
    """Changes to init containers, by name."""
    containers: list[ContainerPatch] | None = None
    """Changes to containers, by name."""
    scheduling_gates: list[core_v1.PodSchedulingGate] | None = field(name="schedulingGates", default=None)
    """Scheduling gates of the pods. A pod is not scheduled as long as it has one."""
    image_pull_secrets: list[core_v1.LocalObjectReference] | None = field(name="imagePullSecrets", default=None)
    """Secrets with which images are pulled."""
    security_context: core_v1.PodSecurityContext | None = field(name="securityContext", default=None)
    """Security settings of the pods."""
    termination_grace_period_seconds: int | None = field(name="terminationGracePeriodSeconds", default=None)
    """Seconds between the request to stop and the kill of a pod's processes."""

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
    """Changes to the pods' spec."""

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
    """Fields of a Job's spec that a patch may change."""

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
    """Changes to the Job's spec."""

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
    """Name of the replicated job to change. The runtime must have one of this name."""
    template: JobTemplatePatch | None = None
    """Changes to the Job template."""

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
    """Fields of a JobSet's spec that a patch may change."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "replicatedJobs": Merge("map", keys=("name",), patch=("merge",), patch_key="name"),
    }

    replicated_jobs: list[ReplicatedJobPatch] | None = field(name="replicatedJobs", default=None)
    """Changes to replicated jobs. Each entry applies to the replicated job of its name."""

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
    """Changes to the JobSet's spec."""

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
    """Fields of a runtime's spec that a patch may change."""

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
    """Template of the JobSet that is created for a TrainJob."""

    metadata: meta_v1.ObjectMeta | None = None
    """Labels and annotations of the JobSet. Name and namespace are the job's."""
    spec: jobset_v1alpha2.JobSetSpec | None = None
    """Spec of the JobSet."""

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
    """Changes of one manager to the runtime's template."""

    manager: str
    """Name of who makes these changes, as a domain and a path, such as example.com/tuner. Immutable."""
    time: str | None = None
    """Time of the last change of this entry. Set by the admission webhook."""
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
    """Desired state of the TrainJob."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "runtimePatches": Merge("map", keys=("manager",)),
    }

    runtime_ref: RuntimeRef = field(name="runtimeRef")
    """The runtime that the job uses. Immutable."""
    initializer: Initializer | None = None
    """Dataset and model to download before the training starts. Immutable."""
    trainer: Trainer | None = None
    """Image, command, nodes and resources of the training, in place of the runtime's. Immutable."""
    runtime_patches: list[RuntimePatch] | None = field(name="runtimePatches", default=None)
    """Changes to the runtime's template, one entry for each manager. They are applied in this order, and a later
    one wins.
    """
    suspend: bool | None = None
    """True deletes the job's pods and keeps the job. False starts them, again if they ran before."""
    managed_by: str | None = field(name="managedBy", default=None)
    """The controller that runs the job. Set it to kueue.x-k8s.io/multikueue for a job that MultiKueue runs on
    another cluster; this manager then leaves the job alone. Immutable.
    """
    active_deadline_seconds: int | None = field(name="activeDeadlineSeconds", default=None)
    """Seconds that the job may run, counted from its creation or its last resume. After them it fails. Without a
    value there is no limit. Immutable.
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


class TrainJobTemplate(Struct, kw_only=True):
    """Template of the TrainJobs of the trials."""

    spec: TrainJobSpec
    """Spec of each TrainJob."""
    metadata: meta_v1.ObjectMeta | None = None
    """Labels and annotations of each TrainJob. Neither name nor namespace."""

    @property
    def metadata_or_empty(self) -> meta_v1.ObjectMeta:
        return self.metadata or empty(meta_v1.ObjectMeta)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        n.spec = n.spec.deepcopy()
        if n.metadata is not None:
            n.metadata = n.metadata.deepcopy()
        return n

    def set_defaults(self) -> None:
        self.spec.set_defaults()


class TrainingRuntimeSpec(Struct, kw_only=True):
    """Template of TrainJobs. TrainingRuntime and ClusterTrainingRuntime have the same spec."""

    ml_policy: MLPolicy | None = field(name="mlPolicy", default=None)
    """Number of nodes, and the framework of the training."""
    pod_group_policy: PodGroupPolicy | None = field(name="podGroupPolicy", default=None)
    """Gang scheduling of the pods."""
    template: JobSetTemplateSpec | None = None
    """Template of the JobSet that is created for a TrainJob."""

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
    """A ClusterTrainingRuntime is a template for the TrainJobs of all namespaces."""

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
    """Desired state of the ClusterTrainingRuntime."""

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


class OptimizationJobSpec(Struct, kw_only=True):
    """A search for parameters."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "objectives": Merge("map", keys=("metric",)),
        "parameters": Merge("map", keys=("name",)),
    }

    objectives: list[Objective]
    """What is optimized. Exactly one metric."""
    parameters: list[ParameterSpec]
    """The parameters to search, and the values that each may have."""
    train_job_template: TrainJobTemplate = field(name="trainJobTemplate")
    """The TrainJob of each trial. Its training gets each parameter as the environment variable
    KUBEFLOW_TRAINER_OPT_ and the name in upper case.
    """
    search_algorithm: SearchAlgorithm | None = field(name="searchAlgorithm", default=None)
    """How the parameters of the trials are chosen."""
    num_trials: int | None = field(name="numTrials", default=None)
    """Number of trials, failed ones included."""
    parallel_trials: int | None = field(name="parallelTrials", default=None)
    """Number of trials that may run or wait at the same time."""

    @property
    def search_algorithm_or_empty(self) -> SearchAlgorithm:
        return self.search_algorithm or empty(SearchAlgorithm)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        n.objectives = [x.deepcopy() for x in n.objectives]
        n.parameters = [x.deepcopy() for x in n.parameters]
        n.train_job_template = n.train_job_template.deepcopy()
        if n.search_algorithm is not None:
            n.search_algorithm = n.search_algorithm.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.search_algorithm is None:
            self.search_algorithm = convert({'random': {}}, SearchAlgorithm)
        if self.num_trials is None:
            self.num_trials = 1
        if self.parallel_trials is None:
            self.parallel_trials = 1
        for each_objectives in self.objectives:
            each_objectives.set_defaults()
        for each_parameters in self.parameters:
            each_parameters.set_defaults()
        self.train_job_template.set_defaults()


class TrainJob(Object, kw_only=True):
    """A TrainJob is one distributed training run. It names a runtime, and changes what differs in this run."""

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
    """Desired state of the TrainJob."""
    status: TrainJobStatus | None = None
    """Current state of the TrainJob. Written by the manager."""

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
    """A TrainingRuntime is a template for the TrainJobs of its namespace."""

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
    """Desired state of the TrainingRuntime."""

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


class OptimizationJob(Object, kw_only=True):
    """An OptimizationJob searches for the parameters with which a training gives the best value. It runs one
    TrainJob for each trial.
    """

    RESOURCE: ClassVar[Resource] = Resource(
        group="trainer.kubeflow.org",
        version="v1alpha1",
        kind="OptimizationJob",
        plural="optimizationjobs",
        namespaced=True,
    )

    spec: OptimizationJobSpec
    """The search. Immutable."""
    api_version: str | None = field(name="apiVersion", default=None)
    kind: str | None = None
    metadata: meta_v1.ObjectMeta | None = None
    status: OptimizationJobStatus | None = None
    """Current state of the search. Written by the manager."""

    @property
    def metadata_or_empty(self) -> meta_v1.ObjectMeta:
        return self.metadata or empty(meta_v1.ObjectMeta)

    @property
    def status_or_empty(self) -> OptimizationJobStatus:
        return self.status or empty(OptimizationJobStatus)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        n.spec = n.spec.deepcopy()
        if n.metadata is not None:
            n.metadata = n.metadata.deepcopy()
        if n.status is not None:
            n.status = n.status.deepcopy()
        return n

    def set_defaults(self) -> None:
        self.spec.set_defaults()
