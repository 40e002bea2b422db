# SPDX-License-Identifier: Apache-2.0
"""A release of the sources as they are: made twice, the same bytes each time, and tried as its program does."""

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.wheels import copy_sources

pytestmark = [pytest.mark.parity, pytest.mark.timeout(1800)]


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def release(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "hack.release", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_release_is_made_tried_and_the_same_each_time(tmp_path: Path) -> None:
    folder, again = tmp_path / "one", tmp_path / "another place"
    folder.mkdir()
    copy_sources(folder)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=All of it")
    said = release(folder, f"--output={tmp_path / 'made'}")
    for kind in (".whl", ".tar.gz"):
        assert f"{kind}: installed; version, render, manager, explain, doctor, plugins and progress work" in said
    assert "builds the same wheel, byte for byte" in said
    assert said.count(".tgz: installed in a control plane, and removed") == 2
    names = {path.name.partition("-")[0] for path in (tmp_path / "made").iterdir()}
    assert {"trainwright", "image", "CHANGELOG.md", "SHA256SUMS"} <= names
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=tmp_path / "made", check=True)
    assert '"purl": "pkg:npm/uplot@' in (tmp_path / "made" / "image-sbom.cdx.json").read_text()
    with tarfile.open(next((tmp_path / "made").glob("trainwright-[0-9]*.tgz"))) as chart:
        assert "trainwright/charts/jobset/Chart.yaml" in chart.getnames()
    # Elsewhere, later, and with other default modes of files.
    subprocess.run(["git", "clone", "--quiet", folder, again], check=True, capture_output=True, umask=0o077)
    release(again, f"--output={tmp_path / 'made again'}", "--no-try")
    for path in (tmp_path / "made again").iterdir():
        if path.name != "SHA256SUMS":
            assert path.read_bytes() == (tmp_path / "made" / path.name).read_bytes(), path.name
