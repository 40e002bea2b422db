# SPDX-License-Identifier: Apache-2.0
"""Every recorded case of Kubeflow Trainer that needs no feature gate, replayed on our manager and our API server.

Here with the gates on that change no job: what they add, a condition or an event, must not disturb.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.managers import start_manager
from tests.repository import ROOT
from trainwright.controller.local.testing.control_plane import LocalControlPlane

CONFORMANCE = ROOT / "tests" / "conformance"


@pytest.mark.timeout(1200)
def test_the_manager_does_on_the_local_server_what_is_recorded(local_jobset_crd: Path) -> None:
    crds = [ROOT / "config" / "crd", CONFORMANCE / "crds", local_jobset_crd]
    with LocalControlPlane(crds=crds) as control_plane:
        start_manager(control_plane, webhooks=True, featureGates={"Explain": True, "ProgressPull": True})
        replay = [sys.executable, str(CONFORMANCE / "replay.py"), f"--kubeconfig={control_plane.kubeconfig}"]
        # Most of a case is waiting until nothing changes any more. It looks no more often than that takes, and leaves
        # what it made, which ends with the server: two thirds of the requests would be looks and deletes.
        replay += ["--timeout=60", "--jobs=24", "--interval=1.5", "--keep"]
        done = subprocess.run(replay, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-20000:] + done.stderr
        summary = done.stdout.splitlines()[-1]
        assert " passed, 0 failed" in summary, summary
        assert int(summary.split()[0]) > 200, summary
