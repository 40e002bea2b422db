# SPDX-License-Identifier: Apache-2.0
"""The model that plugins share: the job's template, with everything that plugins have set so far.

It is made from the inputs once per run. Plugins change it through its methods, phase by phase, and builders read the
result. The inputs (the TrainJob, the runtime, the facts) must not be changed.
"""

from collections.abc import Collection, Mapping
from typing import Final

from trainwright.api.base import empty
from trainwright.api.jobset.v1alpha2 import FailurePolicy, JobSetSpec
from trainwright.api.kubernetes.core.v1 import ContainerPort, EnvVar, ResourceRequirements
from trainwright.api.messages import value_text
from trainwright.api.objects import annotations_of
from trainwright.api.trainer.v1alpha1 import MLPolicy, PodGroupPolicy, TrainJob
from trainwright.api.trainer.v1alpha1.constants import NODE, STEP_TRAINER, TRAINER_PORT
from trainwright.api.trainer.v1alpha1.runtimes import Runtime
from trainwright.plugins.contract.container import ContainerModel, Ledger, TrainerSettings
from trainwright.plugins.contract.errors import Refusal
from trainwright.plugins.contract.facts import ClusterFacts, RecoveryFacts
from trainwright.plugins.contract.podset import PodRef, PodSet

PORT: Final = str(TRAINER_PORT)
"""The port of the first pod of the trainer at which the processes meet, as the value of a variable."""


class Info:
    """The state of one run of the pipeline."""

    __slots__ = (
        "_ledger",
        "_pod_annotations",
        "_pod_labels",
        "annotations",
        "facts",
        "held",
        "job",
        "labels",
        "ml_policy",
        "pod_group_policy",
        "pod_sets",
        "reporter",
        "runtime",
        "template",
        "trainer",
    )

    def __init__(
        self,
        *,
        job: TrainJob,
        runtime: Runtime,
        facts: ClusterFacts,
        template: JobSetSpec,
        pod_sets: tuple[PodSet, ...],
        labels: Mapping[str, str],
        annotations: Mapping[str, str],
        ledger: Ledger,
    ) -> None:
        spec = runtime.spec_or_empty
        self._ledger = ledger
        self.job = job
        """The TrainJob: an input, not to be changed."""
        self.runtime = runtime
        """The runtime that it names: an input, not to be changed."""
        self.facts = facts
        """Facts about the cluster: an input, not to be changed."""
        self.ml_policy: MLPolicy | None = spec.ml_policy
        """The runtime's policy for the framework; None if it has none."""
        self.pod_group_policy: PodGroupPolicy | None = spec.pod_group_policy
        """The runtime's policy for gang scheduling; None if it has none."""
        self.template = template
        """The spec of the JobSet: the runtime's template, with patches and resources merged in. Only the plugin that
        owns the template's kind changes it directly; other plugins use the pod sets."""
        self.pod_sets = pod_sets
        """One for each replicated job, in the same order."""
        self.labels = labels
        """Labels of the JobSet."""
        self.annotations = annotations
        """Annotations of the JobSet."""
        self.trainer = TrainerSettings(job.spec_or_empty.trainer_or_empty, ledger)
        """Image, command and arguments of the trainer."""
        self.reporter: PodRef | None = None
        """The pod that reports the progress of the job. The pipeline sets it between EnforcePodGroupPolicy and
        EnforcePodSpec; None before, and for a job without trainer pods."""
        self.held = False
        """Whether the JobSet is suspended for now though the job is not: its next attempt is held back."""
        self._pod_labels: dict[str, str] = {}
        self._pod_annotations: dict[str, str] = {}

    @property
    def recovery(self) -> RecoveryFacts:
        """What the manager knows of earlier attempts of the job; empty for a new job, and without a cluster."""
        return self.facts.recovery or RecoveryFacts()

    def annotation(self, key: str, *, one_of: Collection[str] = ()) -> str:
        """The annotation of the TrainJob; empty if it has none. Raises Refusal for another value than those."""
        value = annotations_of(self.job).get(key, "")
        if value and one_of and value not in one_of:
            where = f"metadata.annotations[{key}]"
            raise Refusal(f"{where}: {value_text(value, 60)} is not supported; set one of {', '.join(one_of)}")
        return value

    def pod_set(self, name: str) -> PodSet | None:
        """The pod set of that replicated job."""
        return next((pod_set for pod_set in self.pod_sets if pod_set.name == name), None)

    def pod_set_of(self, step: str) -> PodSet | None:
        """The first pod set of that step."""
        return next((pod_set for pod_set in self.pod_sets if pod_set.step == step), None)

    @property
    def ml_policy_or_empty(self) -> MLPolicy:
        """The runtime's policy for the framework, or one to read from in which nothing is set."""
        return self.ml_policy or empty(MLPolicy)

    @property
    def trainer_pods(self) -> PodSet | None:
        """The first pod set of the trainer step."""
        return self.pod_set_of(STEP_TRAINER)

    @property
    def trainer_container(self) -> ContainerModel | None:
        """The main container: `node` in the first pod set of the trainer step."""
        pods = self.trainer_pods
        return pods.container(NODE) if pods is not None else None

    @property
    def subdomain(self) -> str:
        """The subdomain of all host names: the template's, or the name of the JobSet."""
        return self.template.network_or_empty.subdomain or self.job.name

    @property
    def trainer_env(self) -> tuple[EnvVar, ...]:
        """The variables of the TrainJob, as they go into a container. Of two with the same name, the later one wins."""
        return tuple(carried(variable) for variable in self.job.spec_or_empty.trainer_or_empty.env or ())

    def resources_per_node(self) -> ResourceRequirements | None:
        """The resources that process counts are derived from: the TrainJob's if it sets any, else the runtime's.

        The runtime's are those of the first container `node` in a trainer job or in a job named `node`.
        """
        if (resources := self.job.spec_or_empty.trainer_or_empty.resources_per_node) is not None:
            return resources
        for pod_set in self.pod_sets:
            if pod_set.name == NODE or pod_set.step == STEP_TRAINER:
                container = pod_set.container(NODE)
                if container is not None:
                    return container.resources
        return None

    @property
    def pod_labels(self) -> Mapping[str, str]:
        return self._pod_labels

    @property
    def pod_annotations(self) -> Mapping[str, str]:
        return self._pod_annotations

    @property
    def has_failure_policy(self) -> bool:
        """Whether the template says what a failed Job means for the JobSet."""
        return self.template.failure_policy is not None

    def set_failure_policy(self, policy: FailurePolicy, *, why: str) -> None:
        """Say what a failed Job means for the JobSet."""
        before, self.template.failure_policy = self.template.failure_policy, policy
        self._ledger.record("spec.failurePolicy", policy, before=before, why=why)

    def set_pod_label(self, key: str, value: str, *, why: str) -> None:
        self._note_marks("labels", self._pod_labels, key, value, why)
        self._pod_labels[key] = value

    def set_pod_annotation(self, key: str, value: str, *, why: str) -> None:
        self._note_marks("annotations", self._pod_annotations, key, value, why)
        self._pod_annotations[key] = value

    def _note_marks(self, what: str, marks: Mapping[str, str], key: str, value: str, why: str) -> None:
        """Note the value in each replicated job, where the runtime or a patch may have set another one."""
        for job in self.template.replicated_jobs or ():
            own: Mapping[str, str] = getattr(job.template.spec_or_empty.template.metadata_or_empty, what) or {}
            path = f"spec.replicatedJobs[{job.name}].template.spec.template.metadata.{what}[{key}]"
            self._ledger.record(path, value, before=marks.get(key, own.get(key)), why=why)


def carried(variable: EnvVar) -> EnvVar:
    """A variable of the TrainJob as it goes into a container.

    A literal value is written even when it is empty; a source takes precedence over it. A field source keeps its path
    only, and a resource source has all three parts. Existing JobSets have variables in this form, and cannot be
    changed.
    """
    if variable.value_from is None:
        return EnvVar(name=variable.name, value=variable.value or "")
    source = variable.value_from.deepcopy()
    if source.field_ref is not None:
        source.field_ref.api_version = None
    if source.resource_field_ref is not None:
        source.resource_field_ref.container_name = source.resource_field_ref.container_name or ""
        source.resource_field_ref.divisor = source.resource_field_ref.divisor or "0"
    return EnvVar(name=variable.name, value_from=source)


def open_trainer_port(container: ContainerModel, *, why: str) -> None:
    """Declare the port that the first pod listens on."""
    container.set_port(ContainerPort(container_port=TRAINER_PORT), why=why)


def takes_part(info: Info, pods: PodSet) -> bool:
    """Whether the framework is set up in the trainer's main container.

    Without spec.trainer, the container of a single node stays as the runtime has it. Several nodes are always set up,
    since they could not find each other otherwise.
    """
    return info.job.spec_or_empty.trainer is not None or pods.count > 1
