# SPDX-License-Identifier: Apache-2.0
"""The end of a cluster whose process hangs, as in a plugin that does not return."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trainwright.controller.cli import state
from trainwright.controller.cli.main import main

HANGS = """
import os, signal, sys, time
from pathlib import Path
from trainwright.controller.cli import state
folder = Path(sys.argv[1])
state.claim(folder)
signal.signal(signal.SIGTERM, lambda *_: state.remove(folder) if sys.argv[2] == "ends" else None)
with state.held(folder):
    state.write(folder, state.ClusterRun("hung", os.getpid(), "", "", "", ""))
    (folder / "cluster.log").write_text("blocked in acme.py\\n")
    print("up", flush=True)
    while sys.argv[2] == "hangs" or state.running(folder):
        time.sleep(0.01)
"""


@pytest.mark.parametrize(("how", "code"), [("ends", 0), ("hangs", -signal.SIGKILL)])
def test_a_cluster_that_does_not_react_is_killed(
    how: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("trainwright.controller.cli.local.daemon._SILENT_SECONDS", 0.1)
    monkeypatch.setattr("trainwright.controller.cli.local.daemon._REACT_SECONDS", 0.1 if how == "hangs" else 60.0)
    folder = tmp_path / "hung"
    command = [sys.executable, "-c", HANGS, str(folder), how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {"PYTHONUNBUFFERED": "1"}) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        assert state.running(folder) is not None
        assert main(["local", "down", "--delete", f"--dir={folder}"]) == 0
        assert process.wait() == code
    output = capsys.readouterr()
    assert not folder.exists()
    assert ("did not react to SIGTERM" in output.err and "blocked in acme.py" in output.err) is (how == "hangs")
