# SPDX-License-Identifier: Apache-2.0
"""Every recorded case of Kubeflow Trainer that needs no feature gate, replayed on our manager and our API server.

Here with the gates on that change no job: what they add, a condition or an event, must not disturb. One run replays all
cases that are selected, so `-k 119-mpi` replays one.
"""

import re
import subprocess
import sys

import pytest

from tests.managers import start_manager
from tests.repository import ROOT
from trainwright.controller.local.testing.control_plane import LocalControlPlane

CONFORMANCE = ROOT / "tests" / "conformance"
CASES = [
    file.parent.name
    for file in sorted(CONFORMANCE.glob("cases/*/case.yaml"))
    if "featureGates" not in file.read_text(encoding="utf-8")
]
OUTCOME = re.compile(r"^(passed|FAILED(?: \(suspect\))?) (\S+) \([\d.]+s\)$", re.MULTILINE)


@pytest.fixture(scope="module")
def failures(request: pytest.FixtureRequest) -> dict[str, str]:
    """What the replay says of each selected case; empty of those that passed."""
    wanted = [
        item.callspec.params["case"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.module is request.module and hasattr(item, "callspec")
    ]
    crds = [ROOT / "config" / "crd", CONFORMANCE / "crds", request.getfixturevalue("local_jobset_crd")]
    with LocalControlPlane(crds=crds) as control_plane:
        start_manager(control_plane, webhooks=True, featureGates={"Explain": True, "ProgressPull": True})
        replay = [sys.executable, str(CONFORMANCE / "replay.py"), f"--kubeconfig={control_plane.kubeconfig}"]
        # Most of a case is waiting until nothing changes any more. It looks no more often than that takes, and leaves
        # what it made, which ends with the server: two thirds of the requests would be looks and deletes.
        replay += ["--timeout=60", "--jobs=24", "--interval=1.5", "--keep", "--verbose"]
        replay += [f"--only=^{case}$" for case in wanted]
        done = subprocess.run(replay, capture_output=True, text=True, check=False)
    _, *parts = OUTCOME.split(done.stdout)
    assert parts, done.stdout[-20000:] + done.stderr
    return {
        name: "" if word == "passed" else word + text
        for word, name, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    }


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("case", CASES)
def test_the_manager_does_on_the_local_server_what_is_recorded(failures: dict[str, str], case: str) -> None:
    assert failures[case] == ""
