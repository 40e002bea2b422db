# SPDX-License-Identifier: Apache-2.0
"""Checks the entries of runtimePatches: the name of the manager, and the replicated jobs and containers that they
change.

A patch must not set variables that belong to spec.trainer or spec.initializer. Targets are looked up in the runtime's
own template; the patched one would contain whatever the patch names.
"""

import re
from collections.abc import Iterator

from trainwright.api.jobset.v1alpha2 import ReplicatedJob
from trainwright.api.trainer.v1alpha1 import ReplicatedJobPatch, TrainJob
from trainwright.api.trainer.v1alpha1.constants import STEP_CONTAINERS
from trainwright.api.trainer.v1alpha1.runtimes import replicated_jobs_of
from trainwright.plugins.contract import Finding, Info, invalid, required

_PATCHES = "spec.runtimePatches"
_MANAGER = "spec.runtimePatches.manager"
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_DOMAIN_LIMIT = 253
_OWN_SECTION = frozenset(STEP_CONTAINERS.values())
"""Containers whose variables come from spec.trainer and spec.initializer."""


def patch_findings(info: Info, job: TrainJob) -> Iterator[Finding]:
    """Problems of all entries."""
    jobs = {replicated.name: replicated for replicated in replicated_jobs_of(info.runtime)}
    for patch in job.spec_or_empty.runtime_patches or ():
        yield from _manager_findings(patch.manager)
        for target in patch.training_runtime_spec_or_empty.template_or_empty.spec_or_empty.replicated_jobs or ():
            replicated = jobs.get(target.name)
            if replicated is None:
                problem = f"the runtime has no replicated job {target.name}; it has {_names(jobs)}"
                yield invalid(_PATCHES, target, problem)
            else:
                yield from _container_findings(replicated, target)


def _manager_findings(manager: str) -> Iterator[Finding]:
    if not manager:
        yield required(_MANAGER, "must name the manager of the patch, such as example.com/team")
        return
    domain, slash, path = manager.partition("/")
    if not slash or not path or not _DOMAIN.fullmatch(domain) or len(domain) > _DOMAIN_LIMIT:
        yield invalid(_MANAGER, manager, "must be a domain and a path, such as example.com/team")
    elif not _PATH.fullmatch(path):
        yield invalid(_MANAGER, manager, "the path after the domain has characters that are not allowed in a URL path")


def _container_findings(replicated: ReplicatedJob, target: ReplicatedJobPatch) -> Iterator[Finding]:
    pod = target.template_or_empty.spec_or_empty.template_or_empty.spec
    spec = replicated.template.spec_or_empty.template.spec_or_empty
    if pod is None:
        return
    for kind, patches, existing in (
        ("init container", pod.init_containers, spec.init_containers),
        ("container", pod.containers, spec.containers),
    ):
        known = {container.name for container in existing or ()}
        for patch in patches or ():
            if patch.name not in known:
                problem = f"replicated job {target.name} has no {kind} {patch.name}; it has {_names(known)}"
                yield invalid(_PATCHES, patch, problem)
            elif kind == "container" and patch.name in _OWN_SECTION and patch.env:
                problem = f"must not set env of container {patch.name}; use spec.trainer.env or spec.initializer"
                yield invalid(_PATCHES, patch, problem)


def _names(names: dict[str, ReplicatedJob] | set[str]) -> str:
    return ", ".join(sorted(names)) or "none"
