# SPDX-License-Identifier: Apache-2.0
"""Whether JobSet is there and works: every TrainJob runs as a JobSet."""

import re
from collections.abc import Iterator

from trainwright.controller.trainer.doctor.findings import Finding, note, problem
from trainwright.controller.trainer.doctor.site import JOBSET_GROUP, Site, images_of

VERSION = "v1alpha2"
TRIED = ((0, 12),)
"""The minor versions that the tests run with."""
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
    for deployment in site.jobset_managers:
        for image in images_of(deployment):
            found = _TAG.search(image)
            if found and (int(found[1]), int(found[2])) not in TRIED:
                tried = ", ".join(f"{major}.{minor}" for major, minor in TRIED)
                yield note(
                    f"JobSet {found[1]}.{found[2]} is installed; tried is {tried}",
                    "nothing if jobs run; else install the version that was tried",
                )


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
