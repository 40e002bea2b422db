# SPDX-License-Identifier: Apache-2.0
"""A provider of another project: built as a wheel, installed with pip into an environment of its own, and used."""

import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.unit.initialize.runs import tree
from tests.wheels import environment_with

SOURCE = Path(__file__).parent / "provider_distribution"
PASSWORD = "a-password-of-the-archive"
FILES = {"config.json": b"{}", "weights/model.safetensors": os.urandom(3 * 2**20)}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment_with(SOURCE, tmp_path_factory.mktemp("provider"))


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        for name, data in FILES.items():
            archive.writestr(name, data)
    return tmp_path / "model.zip"


def initialize(
    python: Path, address: str, target: Path, *options: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    command = [str(python), "-m", "trainwright.controller.cli.main", "initialize", "model"]
    return subprocess.run(
        [*command, f"--storage-uri={address}", f"--output={target}", *options],
        env={**os.environ, "TERMINATION_LOG": str(target.parent / "ended"), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_brings_the_files_once_and_they_can_be_verified(python: Path, archive: Path, tmp_path: Path) -> None:
    target, address = tmp_path / "t", f"zip://{archive}"
    listed = initialize(python, address, target, "--dry-run").stdout
    assert "2 B  config.json\n" in listed
    assert not target.exists()
    first = initialize(python, address, target, ZIP_PASSWORD=PASSWORD)
    assert (first.returncode, tree(target)) == (0, FILES), first.stderr
    second = initialize(python, address, target, ZIP_PASSWORD=PASSWORD)
    assert "is complete: nothing to fetch" in second.stderr
    assert initialize(python, address, target, "--verify").returncode == 0


def test_its_errors_are_sentences_without_its_secret(python: Path, tmp_path: Path) -> None:
    done = initialize(python, f"zip:///folder/{PASSWORD}.zip", tmp_path / "t", ZIP_PASSWORD=PASSWORD)
    assert (done.returncode, "error: NotFound: there is no /folder/" in done.stderr) == (1, True), done.stderr
    ended = (tmp_path / "ended").read_text()
    assert ended.startswith("there is no /folder/")
    assert PASSWORD not in done.stderr + ended
