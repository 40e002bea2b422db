# SPDX-License-Identifier: Apache-2.0
"""What is shipped: a wheel with one top-level package and real files, which works where it is installed."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.repository import ROOT, git


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of what git knows or would add, so that nothing built here lands in it."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    files = git("ls-files", "--cached", "--others", "--exclude-standard", "-z")
    existing = "\0".join(name for name in files.split("\0") if name and (ROOT / name).exists())
    archive = subprocess.run(
        ["tar", "--create", "--null", "--files-from=-"],
        cwd=ROOT,
        input=existing.encode(),
        capture_output=True,
        check=True,
    )
    subprocess.run(["tar", "--extract"], cwd=source, input=archive.stdout, check=True)
    build = (
        "import os, sys; from setuptools.build_meta import build_wheel; "
        "os.chdir(sys.argv[1]); print(build_wheel(sys.argv[2]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", build, str(source), str(target)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return target / done.stdout.splitlines()[-1]


def test_one_top_level_package_with_real_files(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        entries = archive.infolist()
    names = {entry.filename for entry in entries}
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"trainwright"}
    # The file type bits of a symbolic link.
    assert [entry.filename for entry in entries if (entry.external_attr >> 16) & 0o170000 == 0o120000] == []
    sources = {
        f"trainwright/{path.relative_to(ROOT)}"
        for top in ("api", "codegen", "controller", "plugins")
        for path in (ROOT / top).rglob("*.py")
    }
    assert sources <= names
    assert "trainwright/py.typed" in names
    assert "trainwright/controller/runtime/testing/modules/kubernetes/go.mod" in names


def test_the_wheel_runs_where_it_is_installed(wheel: Path, tmp_path: Path) -> None:
    # Unpacking is what installing a pure wheel does; the dependencies are those of this environment.
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "trainwright.controller.cli.main", "--version"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("trainwright "), done.stderr
    tools = subprocess.run(
        [sys.executable, "-m", "trainwright.controller.runtime.testing", "etcd"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert tools.stdout.startswith("etcd "), tools.stderr
