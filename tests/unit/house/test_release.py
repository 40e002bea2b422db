# SPDX-License-Identifier: Apache-2.0
"""The parts of `make release` that need nothing installed; tests/e2e/test_e2e_release.py makes a whole one."""

import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

import hack.release
from hack import sbom
from tests.repository import ROOT
from trainwright import __version__
from trainwright.controller.cli.versions import chart_version

CONTENTS: dict[str, Any] = {
    "python": {"version": "3.13.1", "licence": "PSF-2.0"},
    "architecture": "x86_64",
    "size": 5_000_000,
    "packages": [
        {
            "name": "Some_Thing",
            "version": "1.2",
            "summary": "does something",
            "licence": "MIT License",
            "licence_files": [{"name": "LICENSE", "text": "You may."}],
            "vendored": [{"name": "chart", "version": "3.1", "licence": "MIT"}],
            "needs": ["other", "not-installed"],
            "files": 3,
            "size": 1_500_000,
        },
        {
            "name": "other",
            "version": "2",
            "summary": "",
            "licence": "Words of its own",
            "licence_files": [],
            "vendored": [],
            "needs": [],
            "files": 1,
            "size": 500,
        },
    ],
}
SYSTEM: dict[str, Any] = {
    "system": {"ID": "debian", "VERSION_ID": "13"},
    "system_packages": [
        {"name": "libc6", "version": "2.41-1", "architecture": "amd64", "licences": ["LGPL-2.1+"], "size": 13_000_000}
    ],
}


@pytest.fixture
def release() -> ModuleType:
    return hack.release


@pytest.fixture
def commit(tmp_path: Path, release: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A repository of the test's own, and what makes a commit in it."""
    monkeypatch.setattr(release, "ROOT", tmp_path)
    for name in ("GIT_AUTHOR", "GIT_COMMITTER"):
        monkeypatch.setenv(f"{name}_NAME", "a")
        monkeypatch.setenv(f"{name}_EMAIL", "a@example.com")
        monkeypatch.setenv(f"{name}_DATE", "2026-11-22T10:00:00Z")
    release.git("init", "--quiet")

    def make(subject: str) -> None:
        release.git("commit", "--quiet", "--allow-empty", f"--message={subject}")

    return make


def test_only_the_files_of_a_release_make_room_for_the_next(release: ModuleType, tmp_path: Path) -> None:
    dist = tmp_path / "dist"
    release.empty(dist)
    for name in ("trainwright-1.2-py3-none-any.whl", "trainwright-1.2.tar.gz", "image-sbom.json", "SHA256SUMS"):
        (dist / name).touch()
    release.empty(dist)
    assert list(dist.iterdir()) == []
    (dist / "SHA256SUMS").touch()
    (dist / "src").mkdir()
    with pytest.raises(release.ReleaseError, match=r"dist holds src, which no release made: empty it, or give another"):
        release.empty(dist)
    assert (dist / "SHA256SUMS").exists()


def test_the_changelog_has_the_commits_since_the_last_tag(release: ModuleType, commit: Callable[[str], None]) -> None:
    commit("Begin")
    assert (
        f"# Trainwright {__version__}\n\n2026-11-22. 1 commits since the beginning.\n\n- Begin (" in release.changelog()
    )
    release.git("tag", "v0.0.1")
    commit("Add a field")
    commit("Mend a field")
    # The release itself may be tagged already.
    release.git("tag", f"v{__version__}")
    lines = release.changelog().splitlines()
    assert lines[2] == "2026-11-22. 2 commits since v0.0.1."
    assert [line.rpartition(" ")[0] for line in lines[4:]] == ["- Mend a field", "- Add a field"]


def test_only_a_commit_is_released_and_only_as_its_version(
    tmp_path: Path, release: ModuleType, commit: Callable[[str], None]
) -> None:
    commit("Begin")
    release.check()
    release.git("tag", "v99.0")
    with pytest.raises(release.ReleaseError, match=rf"tagged v99.0, and trainwright.__version__ is {__version__}"):
        release.check()
    (tmp_path / "new").touch()
    with pytest.raises(release.ReleaseError, match=r"commit or stash these first:\n\?\? new"):
        release.check()


@pytest.mark.parametrize("url", ["http://example.com", "example.com", 'https://example.com/"', "https://a b"])
def test_an_address_must_be_one(tmp_path: Path, release: ModuleType, url: str) -> None:
    with pytest.raises(release.ReleaseError, match="is not an https address"):
        release.add_address(tmp_path / "pyproject.toml", url)


def chart(folder: Path, **about: str) -> None:
    (folder / "charts" / "a" / "templates").mkdir(parents=True)
    document = {"name": "a", "version": chart_version(), "appVersion": __version__, **about}
    (folder / "charts" / "a" / "Chart.yaml").write_text(yaml.safe_dump(document))
    (folder / "charts" / "a" / "templates" / "one.yaml").write_text("kind: One\n")


def test_a_chart_is_packed_as_helm_does(tmp_path: Path, release: ModuleType) -> None:
    chart(tmp_path)
    (packed,) = release.charts(tmp_path, tmp_path, 1_700_000_000)
    assert packed.name == f"a-{chart_version()}.tgz"
    first = packed.read_bytes()
    with tarfile.open(fileobj=io.BytesIO(first)) as archive:
        assert archive.getnames() == ["a/Chart.yaml", "a/templates/one.yaml"]
        assert {member.mtime for member in archive} == {1_700_000_000}
    for path in (tmp_path / "charts").rglob("*"):
        path.touch()
    list(release.charts(tmp_path, tmp_path, 1_700_000_000))
    assert packed.read_bytes() == first


@pytest.mark.parametrize("about", [{"version": "9.9.9"}, {"appVersion": "9.9.9"}])
def test_a_chart_of_another_version_is_refused(tmp_path: Path, release: ModuleType, about: dict[str, str]) -> None:
    chart(tmp_path, **about)
    with pytest.raises(release.ReleaseError, match="run make generate"):
        list(release.charts(tmp_path, tmp_path, 0))


@pytest.mark.parametrize("contents", [CONTENTS, CONTENTS | SYSTEM], ids=["environment", "image"])
def test_the_sbom_is_valid_and_names_every_part(contents: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1763000000")
    text = sbom.sbom(contents)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert sbom.sbom(contents) == text
    made = json.loads(text)
    assert made["metadata"]["component"]["name"] == "trainwright"
    assert made["metadata"]["timestamp"] == "2025-11-13T02:13:20+00:00"
    purls = {component["purl"] for component in made["components"]}
    assert {"pkg:generic/cpython@3.13.1", "pkg:pypi/some-thing@1.2", "pkg:pypi/other@2", "pkg:npm/chart@3.1"} <= purls
    licences = {component["name"]: component.get("licenses") for component in made["components"]}
    assert licences["Some_Thing"] == [{"license": {"id": "MIT"}}]
    assert licences["other"] == [{"license": {"name": "Words of its own"}}]
    needs = {one["ref"]: one.get("dependsOn") for one in made["dependencies"]}
    assert needs["pypi/some-thing"] == ["pypi/other"]
    if "system" in contents:
        assert "pkg:deb/debian/libc6@2.41-1?arch=amd64&distro=debian-13" in purls


def test_licences_have_their_texts_and_say_what_they_lack() -> None:
    page = sbom.licences(CONTENTS)
    assert "| Some_Thing | 1.2 | MIT |" in page
    assert "| chart (npm) | 3.1 | MIT |" in page
    assert "## Some_Thing 1.2: LICENSE\n\n```text\nYou may.\n```" in page
    assert "The packages of the base image python:3.13-slim are not listed" in page
    assert "Listed with" not in page
    other = CONTENTS | {"python": {"version": "3.11.9", "licence": "PSF-2.0"}}
    assert "Listed with Python 3.11.9; the image has 3.13." in sbom.licences(other)
    assert "| libc6 (Debian) | 2.41-1 | LGPL-2.1+ |" in sbom.licences(CONTENTS | SYSTEM)


def test_contents_are_sorted_by_size_and_summed_up() -> None:
    lines = sbom.table(CONTENTS | SYSTEM).splitlines()
    assert lines[2:] == [
        "| Some_Thing | 1.2 | MIT | 1.5 |",
        "| other | 2 | Words of its own | 0.0 |",
        "| the whole environment | | | 5.0 |",
        "| 1 packages of the base image | | | 13.0 |",
    ]


def test_an_environment_lists_what_it_holds() -> None:
    command = [sys.executable, "-I", str(ROOT / "hack" / "image_contents.py"), "--system"]
    contents = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    packages = {one["name"]: one for one in contents["packages"]}
    aiohttp = packages["aiohttp"]
    assert aiohttp["licence"] == "Apache-2.0 AND MIT"
    assert aiohttp["size"] > 1_000_000
    assert "multidict" in aiohttp["needs"]
    assert "Apache License" in aiohttp["licence_files"][0]["text"]
    # Everything in the image says what its licence is.
    silent = [
        name for name, one in packages.items() if not one["licence"] and sbom.normal(name) in sbom.locked_hashes()
    ]
    assert silent == []
    assert contents["size"] > sum(one["size"] for one in packages.values()) / 2
