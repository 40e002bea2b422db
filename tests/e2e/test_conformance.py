# SPDX-License-Identifier: Apache-2.0
"""Every recorded case that needs no feature gate, replayed on the running manager with its webhooks.

This is the real API server. `make test` replays them on the local one, which needs half the processor time; see
`tests/integration/local/test_recorded_cases.py`.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.managers import start_manager
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.build import provide

ROOT = Path(__file__).parents[2]
CONFORMANCE = ROOT / "tests" / "conformance"


@pytest.mark.timeout(1200)
@pytest.mark.parity
def test_the_manager_does_what_is_recorded() -> None:
    # JobSet's controllers must not run: the cases play their part.
    crds = [ROOT / "config" / "crd", CONFORMANCE / "crds", provide(["jobset-manager"]).manifests["jobset-crd.yaml"]]
    with ControlPlane(crds=crds) as control_plane:
        start_manager(control_plane, webhooks=True)
        replay = [sys.executable, str(CONFORMANCE / "replay.py"), f"--kubeconfig={control_plane.kubeconfig}"]
        # Most of a case is waiting until nothing changes any more. It looks no more often than that takes, and leaves
        # what it made, which ends with the server.
        replay += ["--timeout=60", "--jobs=16", "--interval=1.5", "--keep"]
        done = subprocess.run(replay, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-20000:] + done.stderr
        summary = done.stdout.splitlines()[-1]
        assert " passed, 0 failed" in summary, summary
        assert int(summary.split()[0]) > 200, summary
