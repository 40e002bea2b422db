# SPDX-License-Identifier: Apache-2.0
"""Makes the template of one job from its runtime: the model that plugins then change.

It takes labels and annotations, applies spec.runtimePatches, by which users and other controllers change the template
for one job, and merges the TrainJob's resources into the replicated jobs. The result shares no data with the inputs, so
plugins can change it.

The patches are applied in the order of the list, each as a strategic merge patch of the JobSet's spec, as Kubernetes
applies it to a typed object: the models say which lists are merged, and by which key. A patch cannot delete anything:
absent and empty values have no effect, and directives such as `$patch: delete` do not exist here.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from trainwright.api import merge as sharing
from trainwright.api.base import Struct, copy_open
from trainwright.api.jobset.v1alpha2 import JobSetSpec, ReplicatedJob
from trainwright.api.kubernetes.core.v1 import Container, EnvVar, EnvVarSource, ResourceRequirements, Volume
from trainwright.api.kubernetes.meta.v1 import ObjectMeta
from trainwright.api.objects import Document
from trainwright.api.trainer.v1alpha1 import JobSetTemplatePatch, MLPolicy, RuntimePatch, TrainJob
from trainwright.api.trainer.v1alpha1.constants import NODE, STEP_TRAINER
from trainwright.api.typed import as_typed
from trainwright.plugins.contract import ClusterFacts, Info, PodSet, Refusal, Runtime, step_of
from trainwright.plugins.contract.container import Ledger

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


def resolve(job: TrainJob, runtime: Runtime, templates: Templates) -> JobTemplate:
    """The template of the job. Raises Refusal if it cannot be made. `templates`: those that are prepared already."""
    if job.spec is None:
        raise Refusal("the TrainJob has no spec; name a runtime in spec.runtimeRef", phase=TEMPLATE)
    policy = runtime.spec_or_empty.ml_policy
    patches = job.spec.runtime_patches or ()
    ledger = Ledger()
    labels, annotations = patched_metadata(runtime.spec_or_empty.template_or_empty.metadata_or_empty, patches)
    try:
        if is_patched(patches):
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
        limits=_merged_amounts(base.limits, over.limits), requests=_merged_amounts(base.requests, over.requests)
    )


def _merged_amounts(
    base: dict[str, int | float | str] | None, over: dict[str, int | float | str] | None
) -> dict[str, int | float | str] | None:
    merged = {**(base or {}), **(over or {})}
    return merged or None


def patched_metadata(base: ObjectMeta, patches: Sequence[RuntimePatch]) -> tuple[dict[str, str], dict[str, str]]:
    """Labels and annotations of the JobSet. Of entries with the same key, the last one wins.

    The JobSet takes nothing else from the metadata of the template.
    """
    labels, annotations = dict(base.labels or {}), dict(base.annotations or {})
    for patch in patches:
        added = _template(patch).metadata_or_empty
        labels.update(added.labels or {})
        annotations.update(added.annotations or {})
    return labels, annotations


def is_patched(patches: Sequence[RuntimePatch]) -> bool:
    """Whether one of the entries changes the JobSet's spec."""
    return any(_template(patch).spec is not None for patch in patches)


def patched_template(base: JobSetSpec, patches: Sequence[RuntimePatch], ledger: Ledger) -> JobSetSpec:
    """A copy of the runtime's JobSet spec with all entries applied. Raises Refusal if the result is not a JobSet spec.

    Zero values of both are left out as `as_typed` describes.
    """
    merged: Document = as_typed(JobSetSpec, msgspec.to_builtins(base))
    changes = [change for change in map(_change, patches) if change is not None]
    for manager, patch in changes:
        merged = merge(JobSetSpec, merged, patch, Scribe(ledger, manager))
    _restore_order(merged, [job.name for job in base.replicated_jobs or ()])
    try:
        found: JobSetSpec = msgspec.convert(merged, JobSetSpec)
    except msgspec.ValidationError as error:
        raise Refusal(
            f"the template is not a valid JobSet with spec.runtimePatches applied: {error}", phase="template"
        ) from error
    return found


def _change(patch: RuntimePatch) -> tuple[str, Document] | None:
    spec = _template(patch).spec
    return (patch.manager, as_typed(JobSetSpec, msgspec.to_builtins(spec))) if spec is not None else None


def _restore_order(merged: Document, names: Sequence[str]) -> None:
    """Replicated jobs keep the order of the runtime, because JobSet starts them in that order."""
    rank = {name: index for index, name in enumerate(names)}
    jobs = merged.get("replicatedJobs")
    if jobs:
        jobs.sort(key=lambda job: rank.get(job["name"], 0))


def _template(patch: RuntimePatch) -> JobSetTemplatePatch:
    return patch.training_runtime_spec_or_empty.template_or_empty


_RIVALS: Mapping[type[Struct], frozenset[str]] = {
    model: frozenset(sharing.fields(model)) - {"name"} for model in (EnvVar, EnvVarSource, Volume)
}
"""Structs in which only one field beside the name may be set: the field of a patch replaces the one that is set."""


@dataclass(frozen=True, slots=True)
class Scribe:
    """Notes in the ledger what a patch sets."""

    ledger: Ledger
    manager: str
    path: str = "spec"

    def at(self, step: str) -> "Scribe":
        return Scribe(self.ledger, self.manager, f"{self.path}.{step}")

    def item(self, key: Any) -> "Scribe":
        return Scribe(self.ledger, self.manager, f"{self.path}[{key}]")

    def note(self, value: Any, before: Any) -> None:
        self.ledger.patched(self.path, value, before=before, manager=self.manager)


def merge(model: type[Struct], base: Document, patch: Mapping[str, Any], scribe: Scribe) -> Document:
    """The base with the patch applied, both in wire form. Neither is changed."""
    fields = sharing.fields(model)
    said = {name: value for name, value in patch.items() if name in fields}
    merged = _without_rivals(model, base, said)
    for name, value in said.items():
        merged[name] = _merged(fields[name], merged.get(name), value, scribe.at(name))
    return merged


def _merged(field: sharing.Field, base: Any, value: Any, scribe: Scribe) -> Any:
    replaced = "replace" in field.merge.patch
    if field.shape == "struct" and field.struct is not None and not replaced:
        return merge(field.struct, base or {}, value, scribe)
    if field.shape == "list" and "merge" in field.merge.patch:
        if field.struct is not None and field.merge.patch_key:
            return _merged_items(field.struct, field.merge.patch_key, base or [], value, scribe)
        plain, added = list(base or []), list(dict.fromkeys(value))
        return in_merge_order(plain, [item for item in plain if item not in added], added)
    if field.shape in ("map", "open") and isinstance(value, dict) and isinstance(base or {}, dict) and not replaced:
        before = base or {}
        for key, item in value.items():
            scribe.item(key).note(item, before.get(key))
        return {**before, **copy_open(value)}
    scribe.note(value, base)
    return copy_open(value)


def _merged_items(
    model: type[Struct], key: str, base: Sequence[Document], patch: Sequence[Document], scribe: Scribe
) -> list[Document]:
    """Merge items with the same key and add the others; `in_merge_order` describes the order."""
    before = {item.get(key): item for item in base}
    changed: dict[Any, Document] = {}
    for item in patch:
        name = item.get(key)
        start = changed.get(name, before.get(name, {}))
        changed[name] = merge(model, start, item, scribe.item(name))
    untouched = [name for name in before if name not in changed]
    order = in_merge_order(list(before), untouched, list(changed))
    return [changed[name] if name in changed else before[name] for name in order]


def in_merge_order(base: Sequence[Any], untouched: Sequence[Any], patched: Sequence[Any]) -> list[Any]:
    """The order of the keys of a merged list.

    It merges two queues: the untouched items in the order of the base, and the items of the patch in the patch's order.
    The head of the first queue goes next only if the head of the second one is in the base too, and behind it there. So
    new items come before the rest of the base, and a patch can change the order of items.
    """
    place = {name: index for index, name in enumerate(base)}
    left, right = list(untouched), list(patched)
    result = []
    while left and right:
        first = right[0] in place and place[left[0]] < place[right[0]]
        result.append((left if first else right).pop(0))
    return [*result, *left, *right]


def _without_rivals(model: type[Struct], base: Document, patch: Mapping[str, Any]) -> Document:
    """The base without fields that exclude those of the patch: a volume has one source, a variable one value."""
    rivals = _RIVALS.get(model)
    if rivals is None or rivals.isdisjoint(patch):
        return dict(base)
    return {name: value for name, value in base.items() if name not in rivals or name in patch}


_PARTS: frozenset[type[Struct]] = frozenset({ReplicatedJob, Container})
"""Items of lists that plugins change field by field; other items are set as a whole."""


def changes(
    model: type[Struct], before: Document, after: Document, path: str = "spec"
) -> Iterator[tuple[str, Any, Any]]:
    """The path, the old and the new value of what differs, both in wire form; paths as in the ledger."""
    fields = sharing.fields(model)
    for name in dict.fromkeys((*before, *after)):
        field, old, new = fields[name], before.get(name), after.get(name)
        at, key = f"{path}.{name}", field.merge.patch_key
        if old == new:
            continue
        if field.shape == "struct" and field.struct is not None:
            yield from changes(field.struct, old or {}, new or {}, at)
        elif field.shape == "list" and field.struct is not None and key:
            olds, news = ({item.get(key): item for item in items or ()} for items in (old, new))
            for item in dict.fromkeys((*olds, *news)):
                one, other = olds.get(item), news.get(item)
                if field.struct in _PARTS and one is not None and other is not None:
                    yield from changes(field.struct, one, other, f"{at}[{item}]")
                elif one != other:
                    yield f"{at}[{item}]", one, other
        elif field.shape == "map":
            olds, news = old or {}, new or {}
            yield from (
                (f"{at}[{item}]", olds.get(item), news.get(item))
                for item in dict.fromkeys((*olds, *news))
                if olds.get(item) != news.get(item)
            )
        else:
            yield at, old, new
