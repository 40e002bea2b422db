# SPDX-License-Identifier: Apache-2.0
"""Whether JobSet is there and works: every TrainJob runs as a JobSet."""

import re
from collections.abc import Iterator

from trainwright.api.objects import Document
from trainwright.controller.trainer.doctor.findings import Finding, note, problem
from trainwright.controller.trainer.doctor.site import JOBSET_DEFINITION, JOBSET_GROUP, Site, Unread, images_of

VERSION = "v1alpha2"
TRIED = ((0, 10), (0, 12))
"""The minor versions that the tests run with: docs/admins/versions.md."""
_TAG = re.compile(r":v?(\d+)\.(\d+)\.\d+")
_FAILED = re.compile(r'failed calling webhook "([^"]+)"')


def presence(site: Site) -> Iterator[Finding]:
    """JobSet is installed, in a version that was tried."""
    versions = site.known(site.groups).get(JOBSET_GROUP)
    if versions is None:
        yield problem(
            "JobSet is not installed, and TrainJobs run as JobSets", "install JobSet (https://jobset.sigs.k8s.io)"
        )
        return
    if VERSION not in versions:
        yield problem(
            f"JobSet serves {', '.join(sorted(versions))} and not {JOBSET_GROUP}/{VERSION}", "install a newer JobSet"
        )
        return
    if _is_too_old(site):
        yield problem(
            "JobSet is too old: its definition lacks replicatedJobs[].groupName, which each runtime sets, so every "
            "JobSet of a TrainJob is refused",
            "install JobSet 0.10 or later",
        )
        return
    for deployment in site.jobset_managers:
        for image in images_of(deployment):
            found = _TAG.search(image)
            if found and (int(found[1]), int(found[2])) not in TRIED:
                tried = ", ".join(f"{major}.{minor}" for major, minor in TRIED)
                yield note(
                    f"JobSet {found[1]}.{found[2]} is installed; tried is {tried}",
                    "nothing if jobs run; else install the version that was tried",
                )


def _is_too_old(site: Site) -> bool:
    """As JobSet 0.8. A dry run of an apply would tell the same, but needs the right to change JobSets."""
    # Who may not read definitions is told so by the check of definitions.
    definition = None if isinstance(site.definitions, Unread) else site.definitions.get(JOBSET_DEFINITION)
    if definition is None:
        return False
    for version in definition["spec"]["versions"]:
        if version["name"] == VERSION:
            fields = _properties(_properties(version["schema"]["openAPIV3Schema"], "spec"), "replicatedJobs")
            return bool(fields) and "groupName" not in (fields.get("items") or {}).get("properties", {})
    return False


def _properties(schema: Document, name: str) -> Document:
    """The schema of a field; empty if it is not there."""
    found: Document = (schema.get("properties") or {}).get(name) or {}
    return found


def answer(site: Site) -> Iterator[Finding]:
    """JobSet's webhooks answer: a JobSet passes as a dry run."""
    if not site.serves(JOBSET_GROUP):
        return
    probe = site.known(site.jobset_probe)
    if probe.code == 201:
        return
    failed = _FAILED.search(probe.message)
    if failed:
        yield problem(
            f"JobSet's webhook {failed[1]} does not answer, so no JobSet can be made: {probe.message}",
            "look whether JobSet's controller runs: kubectl get pods -n jobset-system",
        )
    else:
        yield problem(f"a JobSet is refused: {probe.message}", "correct what the message names")
