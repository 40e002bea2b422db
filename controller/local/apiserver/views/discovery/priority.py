# SPDX-License-Identifier: Apache-2.0
"""Which version of a group comes before another.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/#version-priority
"""

import re

_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STABILITY = {None: 0, "beta": 1, "alpha": 2}

Priority = tuple[int, int, int, int, str]


def priority(version: str) -> Priority:
    """A key that sorts versions with the preferred one first: `v10`, `v2`, `v2beta1`, `v2alpha1`, then other names."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return 1, 0, 0, 0, version
    return 0, _STABILITY[match[2]], -int(match[1]), -int(match[3] or 0), ""
