# SPDX-License-Identifier: Apache-2.0
"""The session of docs/learn/on-a-cluster.md, given on a local cluster whose pods train with a real PyTorch.

The reader's `python` finds trainwright. `TRAINWRIGHT_TORCH` names the interpreter whose PyTorch trains, as for
tests/e2e/test_trainings.py.
"""

import os
import shlex
import sys
from pathlib import Path

import pytest
import yaml

from tests.e2e.test_first_hour import environment, home, replay, session
from tests.e2e.trainings import TORCH
from tests.repository import ROOT
from trainwright.controller.runtime.testing.build import provide

PAGE = ROOT / "docs" / "learn" / "on-a-cluster.md"
SECONDS = 600
"""For a machine that does other things, too: PyTorch is started seven times."""
STATE = Path(".local/state/trainwright/local/default")

__all__ = ["home"]  # the fixture


@pytest.mark.parity
@pytest.mark.real_control_plane("kubectl")
@pytest.mark.needs_environment(TORCH)
def test_the_session_goes_as_the_page_shows_it(home: Path, tmp_path: Path) -> None:
    folder, files = tmp_path / "project", tmp_path / "files"
    folder.mkdir()
    files.mkdir()
    script, steps = session(PAGE, files, "tests/e2e/test_learn.py")
    assert len(steps) > 15
    # torchrun 1.13 fails under Python 3.11 with its defaults of both.
    quirks = {"PET_REDIRECTS": "1:1", "PET_TEE": "1:1"}
    entry = {"image": "*pytorch/*", "environment": os.environ[TORCH], "env": quirks}
    images = home / STATE / "images.yaml"
    entries = files / "images.yaml"
    entries.write_text(yaml.safe_dump({"images": [entry]}))
    variables = environment(home)
    programs = home.parent / "programs"
    (programs / "kubectl").symlink_to(provide(["kubectl"])["kubectl"])
    python = programs / "python"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    before = f"trainwright local up\ncp {entries} {images}\nexport KUBECONFIG={home / STATE / 'kubeconfig'}\n"
    replay(before + script, steps, folder, variables, SECONDS)
