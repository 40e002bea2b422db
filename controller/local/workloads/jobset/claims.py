# SPDX-License-Identifier: Apache-2.0
"""What JobSet's webhook refuses in `spec.volumeClaimPolicies`.

Known difference: a claim of the same name that exists already is not compared with the template.

Source: JobSet 0.12.0.
"""

from collections.abc import Iterator

from trainwright.api.objects import Document, name_of
from trainwright.controller.local.workloads.documents import spec_of
from trainwright.controller.local.workloads.invalid import LABEL_LENGTH, InvalidField, subdomain_errors, wrong
from trainwright.controller.local.workloads.jobset import names


def claim_errors(jobset: Document) -> Iterator[InvalidField]:
    """All errors of the policies."""
    known: set[str] = set()
    for p, policy in enumerate(spec_of(jobset).get("volumeClaimPolicies") or ()):
        for t, template in enumerate(policy.get("templates") or ()):
            field, name = f"spec.volumeClaimPolicies[{p}].template[{t}].name", name_of(template)
            if name in known:
                yield wrong(field, name, "names must be unique for VolumeClaimPolicies template")
            known.add(name)
            for error in subdomain_errors(name):
                yield wrong(field, name, error)
            if len(names.claim_name(jobset, template)) > LABEL_LENGTH:
                yield wrong(field, name, "VolumeClaimPolicies template name is too long")
            yield from _of_mounts(jobset, name)


def _of_mounts(jobset: Document, name: str) -> Iterator[InvalidField]:
    mounted = False
    for index, replicated in enumerate(names.replicated_jobs(jobset)):
        pod = spec_of(spec_of(replicated.get("template") or {}).get("template") or {})
        for v, volume in enumerate(pod.get("volumes") or ()):
            if volume.get("name") == name:
                field = f"spec.replicatedJobs[{index}].template.spec.template.spec.volumes[{v}].name"
                detail = f"volume name conflicts with VolumeClaimPolicy template name: {name}"
                yield wrong(field, name, detail)
        containers = [*(pod.get("initContainers") or ()), *(pod.get("containers") or ())]
        mounts = [mount.get("name") for container in containers for mount in container.get("volumeMounts") or ()]
        mounted = mounted or name in mounts
    if not mounted:
        detail = f"replicatedJob containers don't have a matching volumeMount: {name} from VolumeClaimPolicies"
        yield wrong("spec.replicatedJobs", names.replicated_jobs(jobset), detail)
