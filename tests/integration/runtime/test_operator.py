# SPDX-License-Identifier: Apache-2.0
"""The operator of docs/runtime as a user runs it: a process, a kubeconfig, and kubectl."""

import os
import signal
import subprocess
from pathlib import Path

from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.waiting import contains, eventually_sync

OPERATOR = Path(__file__).parents[3] / "docs" / "runtime" / "web_operator.py"


def test_it_is_short() -> None:
    assert len(OPERATOR.read_text().splitlines()) < 60


def try_operator(python: Path, control_plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    """Run the operator with an interpreter, and see it do its work; `tests/e2e/test_wheel.py` does, from the wheel."""
    log = tmp_path / "log"
    environment = {**os.environ, "KUBECONFIG": str(control_plane.kubeconfig)}
    # The operator listens on the default ports, which another test may use now.
    source = OPERATOR.read_text().replace("import Done,", "import NO_SERVERS, Done,")
    source = source.replace('user_agent="web"', 'servers=NO_SERVERS, user_agent="web"')
    program = tmp_path / "web_operator.py"
    program.write_text(source)
    with (
        log.open("wb") as output,
        subprocess.Popen([python, program], cwd=tmp_path, env=environment, stderr=output) as process,
    ):
        try:
            kubectl = ["-n", namespace]
            control_plane.kubectl("create", "configmap", "shop", "--from-literal=replicas=2", *kubectl)
            control_plane.kubectl("label", "configmap", "shop", "web=yes", *kubectl)
            web = control_plane.stored.wait("deployment", "shop", lambda d: d["spec"]["replicas"] == 2, namespace)
            assert web["metadata"]["ownerReferences"][0]["name"] == "shop"
            control_plane.stored.wait("service", "shop", lambda s: s["spec"]["ports"][0]["port"] == 80, namespace)
            control_plane.kubectl("scale", "deployment", "shop", "--replicas=9", *kubectl)
            control_plane.stored.wait("deployment", "shop", lambda d: d["spec"]["replicas"] == 2, namespace)
            control_plane.kubectl("patch", "configmap", "shop", *kubectl, "-p", '{"data":{"replicas":"many"}}')
            eventually_sync(log.read_text, contains("data.replicas is 'many': write a whole number"))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
    assert process.returncode == 0, log.read_text()
