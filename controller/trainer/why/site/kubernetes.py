# SPDX-License-Identifier: Apache-2.0
"""Whether the version of Kubernetes is supported."""

import re
from collections.abc import Iterator

from trainwright.controller.trainer.why.site.findings import Finding, note, warning
from trainwright.controller.trainer.why.site.site import Site

OLDEST, NEWEST = (1, 31), (1, 36)
"""The minor versions that the tests run with, and those between them: docs/admins/versions.md."""


def version(site: Site) -> Iterator[Finding]:
    """Not older than the oldest that the tests run with."""
    found = re.match(r"v?(\d+)\.(\d+)", site.version)
    if found is None:
        return
    minor = (int(found[1]), int(found[2]))
    if minor < OLDEST:
        yield warning(
            f"Kubernetes {minor[0]}.{minor[1]} is not supported; the oldest that is tried is {OLDEST[0]}.{OLDEST[1]}",
            "upgrade the cluster",
        )
    elif minor > NEWEST:
        yield note(
            f"Kubernetes {minor[0]}.{minor[1]} was not tried; the newest that was is {NEWEST[0]}.{NEWEST[1]}",
            "nothing if jobs run; else report what fails",
        )
