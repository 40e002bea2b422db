# SPDX-License-Identifier: Apache-2.0
"""A plugin that cannot be loaded is one line: which, why, what to do. No command shows a traceback."""

import json
from pathlib import Path

import pytest

from tests.repository import ROOT
from trainwright.controller.cli.main import main
from trainwright.plugins.registry import PluginCandidate, registry

LINE = (
    "plugin Ray (distribution acme-ray 1.0): cannot be imported from no_such_module:RayPlugin: ModuleNotFoundError: "
    "No module named 'no_such_module'; correct the plugin, or uninstall acme-ray, or list Ray under plugins.disabled "
    "in the manager's Configuration"
)
KUBECONFIG = {
    "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}],
    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    "users": [{"name": "a", "user": {}}],
    "current-context": "a",
}
SAMPLE = str(ROOT / "config" / "samples" / "02-torch.yaml")
COMMANDS = {
    "plugins": (["plugins"], 1),
    "rbac": (["rbac"], 1),
    "render": (["render", "-f", SAMPLE], 1),
    "doctor": (["doctor"], 2),
    "explain": (["explain", "job"], 2),
    "run": (["local", "run", "script.py"], 125),
    "up": (["local", "up", "--foreground", "--memory"], 1),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_one_line(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = PluginCandidate("Ray", "no_such_module:RayPlugin", "acme-ray", "1.0")
    monkeypatch.setattr(registry, "installed", lambda: [broken])
    (tmp_path / "kubeconfig").write_text(json.dumps(KUBECONFIG))
    (tmp_path / "script.py").write_text("print('hello')\n")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    arguments, code = COMMANDS[command]
    assert main(arguments) == code
    assert capsys.readouterr().err == f"error: {LINE}\n"
