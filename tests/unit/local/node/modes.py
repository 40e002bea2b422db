# SPDX-License-Identifier: Apache-2.0
"""The modes that this machine has: namespaces are refused by some (L-49)."""

import pytest

from trainwright.controller.local.node.hosting import probe
from trainwright.controller.local.node.settings import Isolation

REFUSED = probe()
"""Why namespaces do not work here; empty if they do."""

MODES = [Isolation.REWRITE] if REFUSED else [Isolation.REWRITE, Isolation.NAMESPACES]

IN_ONE_MODE = pytest.mark.parametrize("isolation", MODES[-1:], indirect=True)
"""Of tests in which no name, no mount and no process tree matters: as the node isolates by default."""
