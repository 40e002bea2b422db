# SPDX-License-Identifier: Apache-2.0
"""Changes of a JobSet that exists, within what JobSet's webhook allows.

A running JobSet can hardly be changed. In a suspended one, labels, annotations, node selectors, tolerations and
scheduling gates of the pods can be changed, and `suspend`.
Source: `jobset_webhook.go` of JobSet 0.12.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.objects import Document, managed_fields_of
from trainwright.api.ownership import extract
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import FIELD_MANAGER
from trainwright.plugins.contract import Component

_MUTABLE = frozenset({"nodeSelector", "tolerations", "schedulingGates"})
_MUTABLE_METADATA = frozenset({"labels", "annotations"})
_PATCHED = frozenset({"replicatedJobs", "suspend"})
"""Fields of the spec that can change after creation; all others come from the snapshot of the runtime."""


def may_apply(job: TrainJob, live: JobSet, *, held: bool = False) -> bool:
    """Whether the JobSet may be written: it is to be suspended or held back, or it is suspended and is to be resumed.

    A running JobSet is left alone: Kubernetes allows hardly any change, and each would restart pods.
    """
    return held or bool(job.spec_or_empty.suspend) or bool(live.spec_or_empty.suspend)


def as_stored(component: Component, live: JobSet) -> Component:
    """The component with the stored value of each immutable field that differs from ours by server defaults only.

    `volumeClaimPolicies` is owned as a whole and must equal its stored value, which has defaults that ours lacks.
    """
    wanted = component.document["spec"]
    stored = msgspec.to_builtins(live.spec) if live.spec is not None else {}
    kept = {
        name: stored[name]
        for name, value in wanted.items()
        if name not in _PATCHED and name in stored and _is_completed(value, stored[name])
    }
    return replace(component, document={**component.document, "spec": {**wanted, **kept}})


def with_fallback(component: Component, live: JobSet) -> Component:
    """The component, and what JobSet lets one change of the stored JobSet, for the case that it refuses the whole.

    It refuses when anything else differs: a patch that came too late, or a template that another version of Trainwright
    or Kubeflow Trainer wrote in another order. Such a job must be resumed nonetheless.
    """
    owned = managed_fields_of(live, FIELD_MANAGER)
    if owned is None or "f:spec" not in owned or live.spec is None:
        return component
    wanted = component.document["spec"]
    kept = extract(msgspec.to_builtins(live.spec), owned["f:spec"])
    jobs = {job["name"]: job for job in wanted.get("replicatedJobs", ())}
    changed = [_changed(job, jobs[job["name"]]) if job["name"] in jobs else job for job in kept["replicatedJobs"]]
    fallback = {**kept, "replicatedJobs": changed, "suspend": wanted.get("suspend", False)}
    return replace(component, fallback={**component.document, "spec": fallback}) if fallback != wanted else component


def _is_completed(ours: Any, stored: Any) -> bool:
    """Whether the stored value is ours, with more in its mappings at most."""
    if isinstance(ours, dict) and isinstance(stored, dict):
        return all(name in stored and _is_completed(value, stored[name]) for name, value in ours.items())
    if isinstance(ours, list) and isinstance(stored, list):
        return len(ours) == len(stored) and all(map(_is_completed, ours, stored))
    return bool(ours == stored)


def _changed(kept: Document, wanted: Document) -> Document:
    """The stored replicated job, with the mutable fields of the wanted one."""
    template = kept["template"]["spec"]["template"]
    other = wanted["template"]["spec"]["template"]
    pod = {
        **template,
        "metadata": _picked(template.get("metadata") or {}, other.get("metadata") or {}, _MUTABLE_METADATA),
        "spec": _picked(template["spec"], other["spec"], _MUTABLE),
    }
    # Without metadata there is none to own: an empty one would be refused where labels were owned before.
    written = {name: value for name, value in pod.items() if value or name != "metadata"}
    job = {**kept["template"], "spec": {**kept["template"]["spec"], "template": written}}
    return {**kept, "template": job}


def _picked(kept: Document, wanted: Mapping[str, Any], names: frozenset[str]) -> Document:
    """The stored mapping with the named fields of the wanted one, or without those that are empty there."""
    rest = {name: value for name, value in kept.items() if name not in names}
    return {**rest, **{name: value for name, value in wanted.items() if name in names and value}}
