# SPDX-License-Identifier: Apache-2.0
"""Makes the template of one job from its runtime: the model that plugins then change.

It takes labels and annotations, applies runtimePatches, and merges the TrainJob's resources into the replicated jobs.
The result shares no data with the inputs, so plugins can change it freely.
"""

from collections import OrderedDict
from dataclasses import dataclass

from trainwright.api.jobset.v1alpha2 import JobSetSpec, ReplicatedJob
from trainwright.api.kubernetes.core.v1 import ResourceRequirements
from trainwright.api.trainer.v1alpha1 import MLPolicy, TrainJob
from trainwright.api.trainer.v1alpha1.constants import NODE, STEP_TRAINER
from trainwright.plugins.contract import ClusterFacts, Info, Ledger, PodSet, Refusal, Runtime, step_of
from trainwright.plugins.pipeline.patches import is_patched, patched_metadata, patched_template

TEMPLATE = "template"
"""The phase before the plugins, as errors name it."""
PREPARED = 256
"""Runtimes whose templates are kept; a cluster has dozens."""


@dataclass(frozen=True, slots=True)
class JobTemplate:
    """The template of one job before plugins run."""

    spec: JobSetSpec
    labels: dict[str, str]
    annotations: dict[str, str]
    ledger: Ledger

    def copy(self) -> "JobTemplate":
        """A copy for a further model: plugins change the template of a model."""
        return JobTemplate(self.spec.deepcopy(), dict(self.labels), dict(self.annotations), self.ledger.copy())

    def info(self, job: TrainJob, runtime: Runtime, facts: ClusterFacts) -> Info:
        """The model for plugins. Plugins change the template through it; copy the template first to use it again."""
        policy = runtime.spec_or_empty.ml_policy
        subdomain = self.spec.network_or_empty.subdomain or job.name
        pod_sets = tuple(
            PodSet(
                replicated,
                host_prefix=job.name,
                subdomain=subdomain,
                count=_count(replicated, policy),
                ledger=self.ledger,
            )
            for replicated in self.spec.replicated_jobs or ()
        )
        return Info(
            job=job,
            runtime=runtime,
            facts=facts,
            template=self.spec,
            pod_sets=pod_sets,
            labels=self.labels,
            annotations=self.annotations,
            ledger=self.ledger,
        )


class Templates:
    """The templates of runtimes without any patch, each prepared once."""

    def __init__(self) -> None:
        self._prepared: OrderedDict[int, tuple[JobSetSpec, JobSetSpec]] = OrderedDict()
        """By the id of the runtime: its template, and the same prepared."""

    def of(self, runtime: Runtime) -> JobSetSpec:
        """A copy of the runtime's template. Raises Refusal, ValueError."""
        template = _template_of(runtime)
        known = self._prepared.get(id(runtime))
        # Compared, because another object may have got this id. That costs a tenth of preparing.
        if known is None or known[0] != template:
            known = (template.deepcopy(), patched_template(template, (), Ledger()))
            self._prepared[id(runtime)] = known
            if len(self._prepared) > PREPARED:
                self._prepared.popitem(last=False)
        self._prepared.move_to_end(id(runtime))
        return known[1].deepcopy()


def resolve(job: TrainJob, runtime: Runtime, templates: Templates | None = None) -> JobTemplate:
    """The template of the job. Raises Refusal if it cannot be made. `templates`: those that are prepared already."""
    if job.spec is None:
        raise Refusal("the TrainJob has no spec; name a runtime in spec.runtimeRef", phase=TEMPLATE)
    policy = runtime.spec_or_empty.ml_policy
    patches = job.spec.runtime_patches or ()
    ledger = Ledger()
    labels, annotations = patched_metadata(runtime.spec_or_empty.template_or_empty.metadata_or_empty, patches)
    try:
        if templates is None or is_patched(patches):
            template = patched_template(_template_of(runtime), patches, ledger)
        else:
            template = templates.of(runtime)
    except ValueError as error:
        raise Refusal(f"the template cannot be used: {error}", phase=TEMPLATE) from error
    for replicated in template.replicated_jobs or ():
        _merge_trainer_resources(replicated, job, policy, ledger)
    return JobTemplate(template, labels, annotations, ledger)


def _template_of(runtime: Runtime) -> JobSetSpec:
    """A runtime without a template is valid and gives an empty JobSet, which runs nothing."""
    return runtime.spec_or_empty.template_or_empty.spec or JobSetSpec()


def _count(replicated: ReplicatedJob, policy: MLPolicy | None) -> int:
    """Number of pods: the policy's number of nodes for the trainer, the template's parallelism for every other job."""
    if policy is not None and step_of(replicated) == STEP_TRAINER:
        count = policy.num_nodes
    else:
        count = replicated.template.spec_or_empty.parallelism
    return max(1 if count is None else count, 1)


def _merge_trainer_resources(replicated: ReplicatedJob, job: TrainJob, policy: MLPolicy | None, ledger: Ledger) -> None:
    trainer = job.spec_or_empty.trainer
    if trainer is None or trainer.resources_per_node is None or not _takes_resources(replicated, policy):
        return
    pod = replicated.template.spec_or_empty.template.spec_or_empty
    container = next((one for one in pod.containers if one.name == NODE), None)
    if container is not None:
        container.resources = merge_resources(container.resources_or_empty, trainer.resources_per_node)
        path = f"spec.replicatedJobs[{replicated.name}].template.spec.template.spec.containers[{NODE}].resources"
        ledger.carried(path, container.resources, why="spec.trainer.resourcesPerNode")


def _takes_resources(replicated: ReplicatedJob, policy: MLPolicy | None) -> bool:
    if policy is None:
        return False
    launcher_is_node = bool(policy.mpi_or_empty.run_launcher_as_node)
    return step_of(replicated) == STEP_TRAINER or (launcher_is_node and replicated.name == NODE)


def merge_resources(base: ResourceRequirements, over: ResourceRequirements) -> ResourceRequirements:
    """Limits and requests, merged by resource; the amounts of `over` take precedence.

    Claims are left out, as in Kubeflow Trainer: the JobSets of existing jobs have none, and cannot be changed.
    """
    return ResourceRequirements(
        limits=_merged(base.limits, over.limits), requests=_merged(base.requests, over.requests)
    )


def _merged(
    base: dict[str, int | float | str] | None, over: dict[str, int | float | str] | None
) -> dict[str, int | float | str] | None:
    merged = {**(base or {}), **(over or {})}
    return merged or None
