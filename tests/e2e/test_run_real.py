# SPDX-License-Identifier: Apache-2.0
"""`make run CLUSTER=real`: a TrainJob is followed to Complete, everything stays up, Ctrl-C ends it."""

import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from trainwright.controller.cli.versions import public_data

pytestmark = pytest.mark.parity

ROOT = Path(__file__).parents[2]


def test_a_port_that_is_taken_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-m", "hack.run_real", "--port", port],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == (
        f"error: port {port} on 127.0.0.1 is in use: stop the program that listens there, or choose another port\n"
    )


def test_run_follows_a_trainjob_to_its_end_and_stays_until_it_is_interrupted() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "hack.run_real"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        lines = []
        for line in running.stdout:
            lines.append(line)
            if line.startswith("Ctrl-C stops everything"):
                break
        shown = "".join(lines)
        assert "Complete (AllJobsCompleted" in shown, shown + running.stderr.read()
        for kind in ("trainjob.trainer.kubeflow.org/torch", "jobset.jobset.x-k8s.io/torch", "job.batch/torch-node-0"):
            assert kind in shown
        assert len(re.findall(r"pod/torch-node-0-\d-\w+ .* Completed", shown)) == 2
        [kubeconfig] = re.findall(r"export KUBECONFIG=(\S+)", shown)
        [kubectl] = re.findall(r"export PATH=(\S+?):", shown)
        # Without it the Kubeflow SDK complains.
        ask = [
            "get",
            "configmap",
            "--namespace=kubeflow-system",
            "kubeflow-trainer-public",
            "--output=jsonpath={.data}",
        ]
        answer = subprocess.run(
            [f"{kubectl}/kubectl", f"--kubeconfig={kubeconfig}", *ask], capture_output=True, text=True, check=True
        )
        assert json.loads(answer.stdout) == public_data()
        folder = Path(lines[-1].rstrip(".\n").rsplit(" ", 1)[1])
        assert running.poll() is None
        assert folder.is_dir()
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)
    assert running.returncode == 0
    assert not folder.exists()
