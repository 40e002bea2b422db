# SPDX-License-Identifier: Apache-2.0
"""What is shipped: a wheel with one top-level package and real files, which works where it is installed."""

import email
import email.policy
import re
import runpy
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import trainwright
from tests.integration.runtime.test_operator import try_operator
from tests.repository import ROOT
from tests.unit.codegen.test_project import BOAT
from tests.wheels import build, built, copy_sources
from trainwright.api import extras
from trainwright.controller.runtime.testing import ControlPlane


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    source = tmp_path_factory.mktemp("source")
    copy_sources(source)
    return built(source, tmp_path_factory.mktemp("wheel"))


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
    page = ROOT / "controller" / "dashboard" / "page"
    files = {str(path.relative_to(page)) for path in page.rglob("*") if path.is_file()}
    assert {"index.html", "js/job/chart.js", "vendor/uplot/LICENSE"} <= files
    assert {f"trainwright/controller/dashboard/page/{file}" for file in files} <= names
    assert any(name.endswith("licenses/controller/dashboard/page/vendor/uplot/LICENSE") for name in names)
    runtimes = ROOT / "config" / "runtimes"
    shipped = {file.relative_to(runtimes) for file in runtimes.rglob("*-*.yaml")}
    assert len(shipped) == 10
    assert {f"trainwright/controller/cli/rendering/shipped/{file}" for file in shipped} <= names


def test_the_sdist_has_real_files_and_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    source, unpacked = tmp_path / "source", tmp_path / "unpacked"
    source.mkdir()
    copy_sources(source)
    sdist = built(source, tmp_path, "sdist")
    with tarfile.open(sdist) as archive:
        assert {"0", "5"} == {member.type.decode() for member in archive}  # files and folders
        archive.extractall(unpacked, filter="data")
    again = built(unpacked / sdist.name.removesuffix(".tar.gz"), tmp_path)
    assert again.read_bytes() == wheel.read_bytes()


def test_an_index_shows_the_readme_without_links_into_the_repository(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(archive.read(name), policy=email.policy.default)
    assert metadata["Description-Content-Type"] == "text/markdown"
    page = metadata.get_content()
    assert page.startswith("# Trainwright\n")
    assert "Weaknesses says what is missing" in page
    assert re.findall(r"\]\((?!https:)", page) == []
    assert metadata["Version"] == trainwright.__version__
    assert metadata["License-Expression"] == "Apache-2.0 AND MIT"
    assert set(metadata.get_all("Provides-Extra", [])) == set(extras.LIBRARIES)
    for version in ("3.11", "3.12", "3.13"):
        assert f"Programming Language :: Python :: {version}" in metadata.get_all("Classifier", [])


def test_a_release_with_an_address_has_absolute_links(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    copy_sources(source)
    with (source / "pyproject.toml").open("a") as project:
        project.write('\n[project.urls]\nSource = "https://example.com/trainwright/"\n')
    # The build backend alone runs it as __main__.
    page = runpy.run_path(str(source / "setup.py"))["index_page"]()
    assert "[Weaknesses](https://example.com/trainwright/blob/HEAD/docs/weaknesses.md)" in page
    assert re.findall(r"\]\((?!https:)", page) == []


def test_the_page_of_the_dashboard_is_in_the_wheel(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    copy_sources(source)
    package = source / "controller" / "dashboard"
    (package / "page" / "parts").mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").touch()
    for name in ("probe.html", "parts/probe.css", "parts/probe.svg"):
        (package / "page" / name).write_text("a page")
    with zipfile.ZipFile(built(source, tmp_path)) as archive:
        names = {name for name in archive.namelist() if "probe." in name}
    page = "trainwright/controller/dashboard/page"
    assert names == {f"{page}/probe.html", f"{page}/parts/probe.css", f"{page}/parts/probe.svg"}


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


def test_the_wheel_compiles_the_schemas_of_another_project(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    schema = tmp_path / "boats" / "sea" / "v1" / "boat.yaml"
    schema.parent.mkdir(parents=True)
    schema.write_text(BOAT)

    def python(*arguments: str) -> str:
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = python("-c", "import trainwright; print(trainwright.__file__)")
    assert Path(where.strip()).is_relative_to(tmp_path)
    assert "7 files" in python("-m", "trainwright.controller.cli.main", "generate", "boats")
    assert "up to date" in python("-m", "trainwright.controller.cli.main", "generate", "boats", "--check")
    assert python("-c", "from boats.sea.v1 import Boat; print(Boat.RESOURCE.plural)") == "boats\n"


@pytest.mark.real_control_plane("Deployments")
def test_the_documented_operator_runs_where_only_the_wheel_is_installed(
    wheel: Path, control_plane: ControlPlane, namespace: str, tmp_path: Path
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
    tools = subprocess.run(
        [python, "-m", "trainwright.controller.runtime.testing", "etcd"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert tools.stdout.startswith("etcd "), tools.stderr
    try_operator(python, control_plane, namespace, tmp_path)


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
