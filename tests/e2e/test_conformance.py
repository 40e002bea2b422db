# SPDX-License-Identifier: Apache-2.0
"""Every recorded case that needs no feature gate, replayed on the running manager with its webhooks."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.binaries import provide
from trainwright.controller.runtime.testing.component import free_port

ROOT = Path(__file__).parents[2]
CONFORMANCE = ROOT / "tests" / "conformance"
CONFIGURATIONS = (
    "mutatingwebhookconfigurations/defaulter.trainer.kubeflow.org",
    "validatingwebhookconfigurations/validator.trainer.kubeflow.org",
)


@pytest.mark.timeout(1200)
def test_the_manager_does_what_is_recorded() -> None:
    # JobSet's controllers must not run: the cases play their part.
    crds = [ROOT / "config" / "crd", CONFORMANCE / "crds", provide(["jobset-manager"]).manifests["jobset-crd.yaml"]]
    with ControlPlane(crds=crds) as control_plane:
        configuration = control_plane.folder / "configuration.json"
        configuration.write_text(json.dumps({"health": {"healthProbeBindAddress": "0"}}))
        url = f"https://127.0.0.1:{free_port()}"
        command = [sys.executable, "-m", "trainwright.controller.cli.main", "manager", f"--config={configuration}"]
        control_plane.launch("manager", [*command, f"--kubeconfig={control_plane.kubeconfig}", f"--webhook-url={url}"])
        deadline = time.monotonic() + 60
        while not all(control_plane.kubectl("get", name, "--ignore-not-found") for name in CONFIGURATIONS):
            assert time.monotonic() < deadline, "the webhooks were not registered"
            time.sleep(0.1)
        replay = [sys.executable, str(CONFORMANCE / "replay.py"), f"--kubeconfig={control_plane.kubeconfig}"]
        done = subprocess.run([*replay, "--timeout", "60"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-20000:] + done.stderr
        summary = done.stdout.splitlines()[-1]
        assert " passed, 0 failed" in summary, summary
        assert int(summary.split()[0]) > 200, summary
