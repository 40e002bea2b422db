# SPDX-License-Identifier: Apache-2.0
"""Applies spec.runtimePatches, by which users and other controllers change the runtime's template for one job.

The entries are applied in the order of the list, each as a strategic merge patch of the JobSet's spec, as Kubernetes
applies it to a typed object: the models say which lists are merged, and by which key. A patch cannot delete anything:
absent and empty values have no effect, and directives such as `$patch: delete` do not exist here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from trainwright.api import merge as sharing
from trainwright.api.base import Struct, copy_open
from trainwright.api.jobset.v1alpha2 import JobSetSpec
from trainwright.api.kubernetes.core.v1 import EnvVar, EnvVarSource, Volume
from trainwright.api.kubernetes.meta.v1 import ObjectMeta
from trainwright.api.objects import Document
from trainwright.api.trainer.v1alpha1 import JobSetTemplatePatch, RuntimePatch
from trainwright.api.typed import as_typed
from trainwright.plugins.contract import Ledger, Refusal


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
        """Note that the patch set the value."""
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
