# SPDX-License-Identifier: Apache-2.0
"""An admin who installs the charts with the commands of the pages."""

import os
import re
import subprocess
from pathlib import Path

from tests.charts import MANAGER, RUNTIMES, Helm
from tests.repository import ROOT
from trainwright.controller.runtime.testing import ControlPlane

INSTALL = ROOT / "docs" / "admins" / "install.md"
UPGRADE = ROOT / "docs" / "admins" / "upgrade.md"


def commands(page: Path, heading: str) -> list[str]:
    """The blocks of shell in a section of a page."""
    rest = re.split(rf"^#+ {re.escape(heading)}$", page.read_text(), maxsplit=1, flags=re.MULTILINE)[-1]
    section = re.split(r"^#+ ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    found = re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert found, f"{page} has no commands under {heading!r}"
    return found


class Admin:
    """Types what the page says."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.folder = folder
        tools = folder / "bin"
        tools.mkdir(parents=True)
        (tools / "kubectl").symlink_to(plane.kubectl_path)
        self.helm = Helm(folder / "helm", plane.kubeconfig)
        (tools / "helm").symlink_to(self.helm.program)
        (folder / "charts").mkdir()
        self.charts(MANAGER, RUNTIMES)
        self._environment = {
            **self.helm.environment,
            "PATH": f"{tools}:{os.environ['PATH']}",
            "KUBERC": "off",
        }

    def charts(self, *charts: Path) -> None:
        """Check out other charts: that of the manager, and that of the runtimes."""
        for name, chart in zip((MANAGER.name, RUNTIMES.name), charts, strict=True):
            link = self.folder / "charts" / name
            link.unlink(missing_ok=True)
            link.symlink_to(chart)

    def types(self, script: str) -> str:
        """Run it as a shell does, and stop at the first command that fails; returns what is printed."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout
