# SPDX-License-Identifier: Apache-2.0
"""From runtime and TrainJob to the model that plugins share: the template of this job.

In this order: labels and annotations, runtimePatches, then per replicated job the number of pods and the resources of
the TrainJob. Nothing of the inputs is shared with the result, so whatever a plugin does, they stay as they are.
"""

from trainwright.api.jobset.v1alpha2 import JobSetSpec, ReplicatedJob
from trainwright.api.trainer.v1alpha1 import MLPolicy, TrainJob
from trainwright.api.trainer.v1alpha1.constants import LABEL_ANCESTOR_STEP, NODE, STEP_TRAINER
from trainwright.plugins.contract import ClusterFacts, Info, Ledger, PodSet, Refusal, Runtime
from trainwright.plugins.pipeline.patches import patched_metadata, patched_template
from trainwright.plugins.pipeline.resources import merge_resources

TEMPLATE = "template"
"""The phase before the plugins, as errors name it."""


def resolve(job: TrainJob, runtime: Runtime, facts: ClusterFacts, ledger: Ledger) -> Info:
    """The model before any plugin has run. Raises Refusal if job and runtime make no template."""
    if job.spec is None:
        raise Refusal("the TrainJob has no spec; name a runtime in spec.runtimeRef", phase=TEMPLATE)
    base = runtime.spec.template if runtime.spec is not None else None
    policy = runtime.spec.ml_policy if runtime.spec is not None else None
    patches = job.spec.runtime_patches or ()
    labels, annotations = patched_metadata(base.metadata if base is not None else None, patches)
    # A runtime without a template gives an empty JobSet, which never runs anything: nothing forbids to write one.
    spec = base.spec if base is not None else None
    template = patched_template(spec if spec is not None else JobSetSpec(), patches, ledger)
    subdomain = (template.network.subdomain if template.network is not None else None) or job.name
    pod_sets = []
    for replicated in template.replicated_jobs or ():
        _merge_trainer_resources(replicated, job, policy, ledger)
        count = _count(replicated, policy)
        pod_sets.append(PodSet(replicated, host_prefix=job.name, subdomain=subdomain, count=count, ledger=ledger))
    return Info(
        job=job,
        runtime=runtime,
        facts=facts,
        template=template,
        pod_sets=tuple(pod_sets),
        labels=labels,
        annotations=annotations,
        ledger=ledger,
    )


def step_of(replicated: ReplicatedJob) -> str | None:
    """The step that a replicated job is labelled with."""
    metadata = replicated.template.metadata
    return (metadata.labels or {}).get(LABEL_ANCESTOR_STEP) if metadata is not None else None


def _count(replicated: ReplicatedJob, policy: MLPolicy | None) -> int:
    """The trainer has the policy's number of nodes, if there is a policy; every other job what its template says."""
    if policy is not None and step_of(replicated) == STEP_TRAINER:
        count = policy.num_nodes
    else:
        count = replicated.template.spec.parallelism if replicated.template.spec is not None else None
    return max(1 if count is None else count, 1)


def _merge_trainer_resources(replicated: ReplicatedJob, job: TrainJob, policy: MLPolicy | None, ledger: Ledger) -> None:
    trainer = job.spec.trainer if job.spec is not None else None
    if trainer is None or trainer.resources_per_node is None or not _takes_resources(replicated, policy):
        return
    pod = replicated.template.spec.template.spec if replicated.template.spec is not None else None
    container = next((c for c in (pod.containers if pod is not None else ()) if c.name == NODE), None)
    if container is not None:
        container.resources = merge_resources(container.resources, trainer.resources_per_node)
        path = f"spec.replicatedJobs[{replicated.name}].template.spec.template.spec.containers[{NODE}].resources"
        ledger.carried(path, container.resources, why="spec.trainer.resourcesPerNode")


def _takes_resources(replicated: ReplicatedJob, policy: MLPolicy | None) -> bool:
    if policy is None:
        return False
    launcher_is_node = policy.mpi is not None and bool(policy.mpi.run_launcher_as_node)
    return step_of(replicated) == STEP_TRAINER or (launcher_is_node and replicated.name == NODE)
