# SPDX-License-Identifier: Apache-2.0
"""Versions of the control plane's programs that the tests run with: older ones lack some of what is tested.

`make soak SOAK_ARGS=versions` chooses other pairs than those that all other tests use.
"""

import os

from trainwright.controller.runtime.testing.tools import MODULES, MODULES_VARIABLE


def _minor(name: str) -> tuple[int, int]:
    """The version of a module, such as (1, 36)."""
    version = next(module.version for module in MODULES if module.name == name)
    major, minor, *_ = version.removeprefix("v").split(".")
    return int(major), int(minor)


JOBSET_MAKES_CLAIMS = _minor("jobset") >= (0, 11)
"""Whether JobSet knows volumeClaimPolicies, as the torchtune runtimes need."""
WEBSOCKETS_TO_NODES = _minor("kubernetes") >= (1, 36)
"""Whether the API server passes websockets on to a node, rather than to translate them into SPDY."""
AS_LOCALLY = not os.environ.get(MODULES_VARIABLE)
"""Whether they are those that the local cluster is made after."""
