# SPDX-License-Identifier: Apache-2.0
"""What is shipped: a wheel with one top-level package and real files, which works where it is installed."""

import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.integration.runtime.test_operator import try_operator
from tests.repository import ROOT, git
from trainwright.controller.runtime.testing import ControlPlane


def copy_sources(target: Path) -> None:
    """Copy what git knows or would add, links as links, so that nothing built here gets into a build."""
    files = git("ls-files", "--cached", "--others", "--exclude-standard", "-z")
    existing = "\0".join(name for name in files.split("\0") if name and (ROOT / name).exists())
    archive = subprocess.run(
        ["tar", "--create", "--null", "--files-from=-"],
        cwd=ROOT,
        input=existing.encode(),
        capture_output=True,
        check=True,
    )
    subprocess.run(["tar", "--extract"], cwd=target, input=archive.stdout, check=True)


def build(source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    """Build the wheel of a source folder as pip would; its file name is the last line printed."""
    program = (
        "import os, sys; from setuptools.build_meta import build_wheel; "
        "os.chdir(sys.argv[1]); print(build_wheel(sys.argv[2]))"
    )
    return subprocess.run(
        [sys.executable, "-c", program, str(source), str(target)], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    copy_sources(source)
    done = build(source, target)
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
    assert {"trainwright/py.typed", "trainwright/progress.py"} <= names
    assert "trainwright/controller/runtime/testing/modules/kubernetes/go.mod" in names
    runtimes = ROOT / "config" / "runtimes"
    shipped = {file.relative_to(runtimes) for file in runtimes.rglob("*-*.yaml")}
    assert len(shipped) == 10
    assert {f"trainwright/controller/cli/rendering/shipped/{file}" for file in shipped} <= names


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
    rendered = subprocess.run(
        [
            sys.executable,
            "-m",
            "trainwright.controller.cli.main",
            "render",
            "-f",
            ROOT / "config/samples/02-torch.yaml",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "PET_MASTER_ADDR" in rendered.stdout, rendered.stderr
    tools = subprocess.run(
        [sys.executable, "-m", "trainwright.controller.runtime.testing", "etcd"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert tools.stdout.startswith("etcd "), tools.stderr


def test_the_documented_operator_runs_where_only_the_wheel_is_installed(
    wheel: Path, cluster: ControlPlane, cluster_namespace: str, tmp_path: Path
) -> None:
    environment = tmp_path / "venv"
    venv.create(environment, symlinks=True)
    [packages] = environment.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    # The dependencies are those of this environment; its own trainwright is no file there, so it is not found.
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    python = environment / "bin" / "python"
    where = [str(python), "-c", "import trainwright; print(trainwright.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert Path(found.strip()).is_relative_to(packages)
    try_operator(python, cluster, cluster_namespace, tmp_path)


def test_a_clone_without_links_is_refused(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    copy_sources(source)
    for name in ("api", "codegen", "controller", "plugins"):
        link = source / "trainwright" / name
        text = str(link.readlink())
        link.unlink()
        # What git writes where links are off.
        link.write_text(text)
    done = build(source, target)
    assert done.returncode == 1
    assert "must be symbolic links: trainwright/api, trainwright/codegen, trainwright/controller" in done.stderr
    assert "core.symlinks=true" in done.stderr
    assert list(target.iterdir()) == []
