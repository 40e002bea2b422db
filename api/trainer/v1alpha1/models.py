# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
# ruff: noqa: RUF100, C901, E501, PLC0415, PLR0912, PLR0915, S105
# fmt: off
"""The structs of trainer.kubeflow.org/v1alpha1; import them from the package."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from msgspec import field

from trainwright.api.base import Merge, Object, OrEmpty, Resource, Struct
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


class CoschedulingPodGroupPolicySource(Struct, kw_only=True):
    """Settings for coscheduling."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "schedule_timeout_seconds": 60,
    }

    schedule_timeout_seconds: int | None = field(name="scheduleTimeoutSeconds", default=None)
    """Seconds that the gang may wait until all of its pods can be scheduled."""


class EnvInjectionTarget(Struct, kw_only=True):
    """Containers of one replicated job."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "containerNames": Merge("set"),
    }

    job_name: str = field(name="jobName")
    """Name of the replicated job."""
    container_names: list[str] = field(name="containerNames")
    """Names of containers and init containers of the replicated job."""


class FluxMLPolicySource(Struct, kw_only=True):
    """Settings for Flux."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "num_proc_per_node": 1,
    }

    num_proc_per_node: int | None = field(name="numProcPerNode", default=None)
    """Number of Flux tasks on each node."""


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

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "type": "Float",
    }

    min: str
    """Smallest value, as a decimal number. Greater than 0."""
    max: str
    """Largest value, as a decimal number."""
    type: Literal["Int", "Float"] | None = None
    """Int for whole numbers, or Float."""


class MPIMLPolicySource(Struct, kw_only=True):
    """Settings for MPI."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "num_proc_per_node": 1,
        "mpi_implementation": "OpenMPI",
        "ssh_auth_mount_path": "/root/.ssh",
        "run_launcher_as_node": False,
    }

    num_proc_per_node: int | None = field(name="numProcPerNode", default=None)
    """Number of MPI slots on each node."""
    mpi_implementation: Literal["OpenMPI", ""] | None = field(name="mpiImplementation", default=None)
    """MPI implementation. It determines the format of the host file and the variables of the launcher."""
    ssh_auth_mount_path: str | None = field(name="sshAuthMountPath", default=None)
    """Directory in which the SSH keys are mounted."""
    run_launcher_as_node: bool | None = field(name="runLauncherAsNode", default=None)
    """True if the launcher also runs training processes."""


class Metric(Struct, kw_only=True):
    """One metric and its value."""

    name: str
    """Name of the metric."""
    value: str
    """Value of the metric, as text."""


class NetworkTopologySpec(Struct, kw_only=True):
    """Limit on the network distance between the pods."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "mode": "hard",
        "highest_tier_allowed": 1,
    }

    mode: Literal["hard", "soft"] | None = None
    """hard if the pods must keep the limit, soft if the scheduler should try."""
    highest_tier_allowed: int | None = field(name="highestTierAllowed", default=None)
    """Highest network tier that the pods may span."""


class Objective(Struct, kw_only=True):
    """A metric that the training reports, and whether it shall be small or large."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "direction": "Minimize",
    }

    metric: str
    """Name of the metric, as the training reports it."""
    direction: Literal["Maximize", "Minimize"] | None = None
    """Minimize or Maximize."""


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

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "api_group": "trainer.kubeflow.org",
        "kind": "ClusterTrainingRuntime",
    }

    name: str
    """Name of the runtime."""
    api_group: str | None = field(name="apiGroup", default=None)
    """API group of the runtime."""
    kind: str | None = None
    """ClusterTrainingRuntime, or TrainingRuntime for a runtime in the namespace of the job."""


class SearchAlgorithm(Struct, kw_only=True):
    """How the parameters of the trials are chosen."""

    random: RandomSearch | None = None
    """Values are drawn at random."""
    grid: GridSearch | None = None
    """Each combination of the choices is tried once, in a fixed order."""

    random_or_empty = OrEmpty(RandomSearch)
    grid_or_empty = OrEmpty(GridSearch)


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


class UniformSpace(Struct, kw_only=True):
    """Numbers from min to max, all equally likely."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "type": "Float",
    }

    min: str
    """Smallest value, as a decimal number."""
    max: str
    """Largest value, as a decimal number."""
    type: Literal["Int", "Float"] | None = None
    """Int for whole numbers, or Float."""


class UpdateTrainJobStatusRequest(Struct, kw_only=True):
    """Body of a request to the status server, and of its response."""

    trainer_status: TrainerStatus | None = field(name="trainerStatus", default=None)
    """The new progress. Without it, nothing changes."""

    trainer_status_or_empty = OrEmpty(TrainerStatus)


class VolcanoPodGroupPolicySource(Struct, kw_only=True):
    """Settings for Volcano."""

    network_topology: NetworkTopologySpec | None = field(name="networkTopology", default=None)
    """How close to each other in the network the pods must be."""

    network_topology_or_empty = OrEmpty(NetworkTopologySpec)


class XGBoostMLPolicySource(Struct, kw_only=True):
    """Settings for XGBoost. There are none."""


class EnvInjection(Struct, kw_only=True):
    """Containers that get the framework's environment variables, in addition to the training container."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "targets": Merge("map", keys=("jobName",)),
    }

    targets: list[EnvInjectionTarget] | None = None
    """The containers, by replicated job."""


class OptimizationResult(Struct, kw_only=True):
    """The best trial and its parameters."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "parameters": Merge("map", keys=("name",)),
    }

    train_job_name: str = field(name="trainJobName")
    """Name of the best trial's TrainJob."""
    parameters: list[ParameterAssignment] | None = None
    """Parameters of the best trial."""


class PodGroupPolicy(Struct, kw_only=True):
    """Gang scheduler of the pods: coscheduling or Volcano."""

    coscheduling: CoschedulingPodGroupPolicySource | None = None
    """Coscheduling of the scheduler plugins."""
    volcano: VolcanoPodGroupPolicySource | None = None
    """Volcano."""

    coscheduling_or_empty = OrEmpty(CoschedulingPodGroupPolicySource)
    volcano_or_empty = OrEmpty(VolcanoPodGroupPolicySource)


class SearchSpace(Struct, kw_only=True):
    """The values that a parameter may have. Exactly one of its fields is set."""

    uniform: UniformSpace | None = None
    """Numbers of a range, all equally likely."""
    log_uniform: LogUniformSpace | None = field(name="logUniform", default=None)
    """Numbers of a range, whose logarithms are equally likely."""
    categorical: CategoricalSpace | None = None
    """A list of values."""

    uniform_or_empty = OrEmpty(UniformSpace)
    log_uniform_or_empty = OrEmpty(LogUniformSpace)
    categorical_or_empty = OrEmpty(CategoricalSpace)


class TorchMLPolicySource(Struct, kw_only=True):
    """Settings for PyTorch."""

    env_injection: EnvInjection | None = field(name="envInjection", default=None)
    """Further containers that get the PET_* environment variables."""

    env_injection_or_empty = OrEmpty(EnvInjection)


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

    trainer_status_or_empty = OrEmpty(TrainerStatus)


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

    security_context_or_empty = OrEmpty(core_v1.SecurityContext)


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

    secret_ref_or_empty = OrEmpty(core_v1.LocalObjectReference)


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

    torch_or_empty = OrEmpty(TorchMLPolicySource)
    mpi_or_empty = OrEmpty(MPIMLPolicySource)
    flux_or_empty = OrEmpty(FluxMLPolicySource)
    jax_or_empty = OrEmpty(JAXMLPolicySource)
    xgboost_or_empty = OrEmpty(XGBoostMLPolicySource)


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

    secret_ref_or_empty = OrEmpty(core_v1.LocalObjectReference)


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

    result_or_empty = OrEmpty(OptimizationResult)


class ParameterSpec(Struct, kw_only=True):
    """A parameter to search."""

    name: str
    """Name of the parameter."""
    search_space: SearchSpace = field(name="searchSpace")
    """The values that the parameter may have."""


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

    resources_per_node_or_empty = OrEmpty(core_v1.ResourceRequirements)


class Initializer(Struct, kw_only=True):
    """Steps that download the dataset and the model before the training starts."""

    dataset: DatasetInitializer | None = None
    """Download of the dataset. The runtime needs a replicated job for it."""
    model: ModelInitializer | None = None
    """Download of the model. The runtime needs a replicated job for it."""

    dataset_or_empty = OrEmpty(DatasetInitializer)
    model_or_empty = OrEmpty(ModelInitializer)


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

    affinity_or_empty = OrEmpty(core_v1.Affinity)
    security_context_or_empty = OrEmpty(core_v1.PodSecurityContext)


class PodTemplatePatch(Struct, kw_only=True):
    """Changes to a pod template."""

    metadata: meta_v1.ObjectMeta | None = None
    """Labels and annotations to add to the pods."""
    spec: PodSpecPatch | None = None
    """Changes to the pods' spec."""

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)
    spec_or_empty = OrEmpty(PodSpecPatch)


class JobSpecPatch(Struct, kw_only=True):
    """Fields of a Job's spec that a patch may change."""

    template: PodTemplatePatch | None = None
    """Changes to the pod template."""

    template_or_empty = OrEmpty(PodTemplatePatch)


class JobTemplatePatch(Struct, kw_only=True):
    """Changes to a Job template."""

    metadata: meta_v1.ObjectMeta | None = None
    """Labels and annotations to add to the Jobs."""
    spec: JobSpecPatch | None = None
    """Changes to the Job's spec."""

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)
    spec_or_empty = OrEmpty(JobSpecPatch)


class ReplicatedJobPatch(Struct, kw_only=True):
    """Changes to one replicated job."""

    name: str
    """Name of the replicated job to change. The runtime must have one of this name."""
    template: JobTemplatePatch | None = None
    """Changes to the Job template."""

    template_or_empty = OrEmpty(JobTemplatePatch)


class JobSetSpecPatch(Struct, kw_only=True):
    """Fields of a JobSet's spec that a patch may change."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "replicatedJobs": Merge("map", keys=("name",), patch=("merge",), patch_key="name"),
    }

    replicated_jobs: list[ReplicatedJobPatch] | None = field(name="replicatedJobs", default=None)
    """Changes to replicated jobs. Each entry applies to the replicated job of its name."""


class JobSetTemplatePatch(Struct, kw_only=True):
    """Changes to the JobSet template of a runtime."""

    metadata: meta_v1.ObjectMeta | None = None
    """Labels and annotations to add to the JobSet."""
    spec: JobSetSpecPatch | None = None
    """Changes to the JobSet's spec."""

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)
    spec_or_empty = OrEmpty(JobSetSpecPatch)


class TrainingRuntimeSpecPatch(Struct, kw_only=True):
    """Fields of a runtime's spec that a patch may change."""

    template: JobSetTemplatePatch | None = None
    """Changes to the JobSet template."""

    template_or_empty = OrEmpty(JobSetTemplatePatch)


class JobSetTemplateSpec(Struct, kw_only=True):
    """Template of the JobSet that is created for a TrainJob."""

    metadata: meta_v1.ObjectMeta | None = None
    """Labels and annotations of the JobSet. Name and namespace are the job's."""
    spec: jobset_v1alpha2.JobSetSpec | None = None
    """Spec of the JobSet."""

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)
    spec_or_empty = OrEmpty(jobset_v1alpha2.JobSetSpec)


class RuntimePatch(Struct, kw_only=True):
    """Changes of one manager to the runtime's template."""

    manager: str
    """Name of who makes these changes, as a domain and a path, such as example.com/tuner. Immutable."""
    time: str | None = None
    """Time of the last change of this entry. Set by the admission webhook."""
    training_runtime_spec: TrainingRuntimeSpecPatch | None = field(name="trainingRuntimeSpec", default=None)
    """Changes to a TrainingRuntime or ClusterTrainingRuntime."""

    training_runtime_spec_or_empty = OrEmpty(TrainingRuntimeSpecPatch)


class TrainJobSpec(Struct, kw_only=True):
    """Desired state of the TrainJob."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "runtimePatches": Merge("map", keys=("manager",)),
    }

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "suspend": False,
        "managed_by": "trainer.kubeflow.org/trainjob-controller",
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

    initializer_or_empty = OrEmpty(Initializer)
    trainer_or_empty = OrEmpty(Trainer)


class TrainJobTemplate(Struct, kw_only=True):
    """Template of the TrainJobs of the trials."""

    spec: TrainJobSpec
    """Spec of each TrainJob."""
    metadata: meta_v1.ObjectMeta | None = None
    """Labels and annotations of each TrainJob. Neither name nor namespace."""

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)


class TrainingRuntimeSpec(Struct, kw_only=True):
    """Template of TrainJobs. TrainingRuntime and ClusterTrainingRuntime have the same spec."""

    ml_policy: MLPolicy | None = field(name="mlPolicy", default=None)
    """Number of nodes, and the framework of the training."""
    pod_group_policy: PodGroupPolicy | None = field(name="podGroupPolicy", default=None)
    """Gang scheduling of the pods."""
    template: JobSetTemplateSpec | None = None
    """Template of the JobSet that is created for a TrainJob."""

    ml_policy_or_empty = OrEmpty(MLPolicy)
    pod_group_policy_or_empty = OrEmpty(PodGroupPolicy)
    template_or_empty = OrEmpty(JobSetTemplateSpec)


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

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)
    spec_or_empty = OrEmpty(TrainingRuntimeSpec)


class OptimizationJobSpec(Struct, kw_only=True):
    """A search for parameters."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "objectives": Merge("map", keys=("metric",)),
        "parameters": Merge("map", keys=("name",)),
    }

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "search_algorithm": {'random': {}},
        "num_trials": 1,
        "parallel_trials": 1,
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

    search_algorithm_or_empty = OrEmpty(SearchAlgorithm)


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

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)
    spec_or_empty = OrEmpty(TrainJobSpec)
    status_or_empty = OrEmpty(TrainJobStatus)


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

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)
    spec_or_empty = OrEmpty(TrainingRuntimeSpec)


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

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)
    status_or_empty = OrEmpty(OptimizationJobStatus)
