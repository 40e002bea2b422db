# SPDX-License-Identifier: Apache-2.0
"""The command `trainwright doctor` where there is nothing to examine."""

from pathlib import Path

import pytest

from trainwright.controller.cli.main import main
from trainwright.controller.runtime.testing.ports import free_port

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:%d"}}]
users: [{name: u, user: {}}]
"""


@pytest.mark.parametrize("is_there", [False, True])
def test_what_cannot_be_examined_is_wrong_use(
    is_there: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As for the other commands that read a cluster; 1 would mean that the installation is broken."""
    file = tmp_path / "kubeconfig"
    if is_there:
        file.write_text(KUBECONFIG % free_port())
    assert main(["doctor", f"--kubeconfig={file}"]) == 2
    assert capsys.readouterr().err.startswith("error: the cluster cannot be examined: ")
