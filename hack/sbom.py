# SPDX-License-Identifier: Apache-2.0
# The decorators of the CycloneDX library hide its classes from pyright; mypy sees them.
# pyright: reportCallIssue=false, reportAttributeAccessIssue=false, reportArgumentType=false
"""`make sbom`: what the image holds, without a container engine: an SBOM (CycloneDX), licences, contents and sizes.

The image is a base image and an environment made from hack/requirements-image.txt and this checkout. The environment is
made here in a temporary folder and listed by hack/image_contents.py. `--contents FILE` takes the list of a real image
instead, which has the packages of the base image too; `make build-image` does so.
"""

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.dependency import Dependency
from cyclonedx.model.license import License
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from hack import sources
from trainwright import __version__

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "hack" / "requirements-image.txt"
CONTENTS = ROOT / "hack" / "image_contents.py"
# What the licences are called in metadata that is older than SPDX expressions.
SPDX = {
    "Apache 2": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache License Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "Dual License": "Apache-2.0 OR BSD-3-Clause",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "http://www.apache.org/licenses/LICENSE-2.0": "Apache-2.0",
}

Contents = dict[str, Any]


def main() -> int:
    """Write the files; exit code 1 if the environment cannot be made."""
    parser = argparse.ArgumentParser(prog="python -m hack.sbom", description="List what the image holds.")
    parser.add_argument("--wheel", type=Path, help="the wheel in the image (default: built from this checkout)")
    parser.add_argument("--contents", type=Path, help="output of hack/image_contents.py in the image")
    parser.add_argument("--output", type=Path, default=ROOT / "dist" / "image", help="folder (default: dist/image)")
    arguments = parser.parse_args()
    try:
        contents = json.loads(arguments.contents.read_text()) if arguments.contents else installed(arguments.wheel)
    except subprocess.CalledProcessError as error:
        print(f"error: the environment of the image cannot be made: {error}", file=sys.stderr)
        return 1
    arguments.output.mkdir(parents=True, exist_ok=True)
    made = documents(contents)
    for name, text in made.items():
        (arguments.output / name).write_text(text)
    print(table(contents), end="")
    print(f"written to {arguments.output}: {', '.join(made)}")
    return 0


def installed(wheel: Path | None = None) -> Contents:
    """The contents of an environment that is made as the Dockerfile makes that of the image.

    Raises CalledProcessError: something could not be built or installed.
    """
    with tempfile.TemporaryDirectory(prefix="trainwright-image-") as folder:
        environment = Path(folder) / "venv"
        python = environment / "bin" / "python"
        # pip would find a checkout on PYTHONPATH, and leave out the wheel.
        clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        subprocess.run([interpreter(), "-m", "venv", environment], check=True, env=clean)
        pip: tuple[str | Path, ...] = (python, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input")
        subprocess.run([*pip, "install", "--require-hashes", "--requirement", LOCK], check=True, env=clean)
        wheel = wheel or sources.build("wheel", sources.copied(Path(folder) / "sources"), Path(folder), epoch())
        subprocess.run([*pip, "install", "--no-deps", wheel], check=True, env=clean)
        # As the image's build does.
        subprocess.run([*pip, "uninstall", "--yes", "pip", "setuptools"], check=True, env=clean)
        # Isolated, as in the image: PYTHONPATH leads nowhere.
        listed = subprocess.run([python, "-I", CONTENTS], check=True, capture_output=True, text=True).stdout
    contents: Contents = json.loads(listed)
    return contents


def interpreter() -> str:
    """Python of the image's version if this machine has one, else the one that runs this."""
    found = shutil.which(f"python{base_python()}")
    # A shim of pyenv is there for each version that is installed, and fails for those that are not selected.
    works = found and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0
    return found if found and works else sys.executable


def documents(contents: Contents) -> dict[str, str]:
    """File name to text."""
    return {"sbom.cdx.json": sbom(contents), "LICENCES.md": licences(contents), "contents.md": table(contents)}


def spdx(words: str) -> str:
    """An SPDX expression for what metadata says, or the words as they are."""
    return SPDX.get(words, words)


def sbom(contents: Contents) -> str:
    """The SBOM. The same contents, commit and lock give the same bytes."""
    make = LicenseFactory()
    version = contents["python"]["version"]
    root = Component(
        name="trainwright",
        version=__version__,
        type=ComponentType.CONTAINER,
        bom_ref="image",
        properties=[
            Property(name="trainwright:base-image", value=base_image()),
            # Without an engine, the packages of the base image are missing.
            Property(name="trainwright:listed-in", value="image" if "system_packages" in contents else "environment"),
        ],
    )
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([__version__, contents], sort_keys=True)))
    bom.metadata.component = root
    bom.metadata.timestamp = datetime.datetime.fromtimestamp(epoch(), tz=datetime.UTC)
    hashes = locked_hashes()
    parts: dict[str, Component] = {}
    for one in contents["packages"]:
        name = normal(one["name"])
        parts[name] = _part(
            one,
            PackageURL("pypi", name=name, version=one["version"]),
            [make.make_from_string(spdx(one["licence"]))] if one["licence"] else [],
            description=one["summary"],
            # The lock has a hash for each wheel of each platform.
            properties=[Property(name="trainwright:locked-hash", value=value) for value in hashes.get(name, ())],
        )
    python = _part(
        {"name": "cpython", "version": version},
        PackageURL("generic", name="cpython", version=version),
        [make.make_from_string(contents["python"]["licence"])],
        type=ComponentType.PLATFORM,
        bom_ref="cpython",
    )
    vendored = [
        _part(
            part,
            PackageURL("npm", name=part["name"], version=part["version"]),
            [make.make_from_string(part["licence"])],
        )
        for part in _vendored(contents)
    ]
    system = [_system_component(one, contents["system"]) for one in contents.get("system_packages", ())]
    every = (*parts.values(), *vendored, python, *system)
    needs = {component.bom_ref: list[Component]() for component in every}
    for one in contents["packages"]:
        needs[parts[normal(one["name"])].bom_ref] = [
            parts[normal(name)] for name in one["needs"] if normal(name) in parts
        ]
    bom.components = every
    # Bom.register_dependency searches all others for each part, which takes seconds for the packages of a base image.
    bom.dependencies = [
        Dependency(ref, [Dependency(other.bom_ref) for other in others])
        for ref, others in {root.bom_ref: every, **needs}.items()
    ]
    return JsonV1Dot6(bom).output_as_string(indent=1) + "\n"


def _vendored(contents: Contents) -> list[dict[str, str]]:
    """Parts that lie inside of distributions: those of the dashboard's page."""
    return [part for one in contents["packages"] for part in one["vendored"]]


def _part(one: Mapping[str, Any], purl: PackageURL, licences: list[License], **more: Any) -> Component:
    fields = {"type": ComponentType.LIBRARY, "bom_ref": f"{purl.type}/{purl.name}", **more}
    return Component(name=one["name"], version=one["version"], purl=purl, licenses=licences, **fields)


def _system_component(one: Mapping[str, Any], system: Mapping[str, str]) -> Component:
    qualifiers = {"arch": one["architecture"], "distro": f"{system['ID']}-{system.get('VERSION_ID', '')}"}
    purl = PackageURL("deb", system["ID"], one["name"], one["version"], qualifiers)
    # Debian's short names are no SPDX identifiers.
    return _part(one, purl, [LicenseFactory().make_with_name(words) for words in one["licences"]])


def licences(contents: Contents) -> str:
    """The licence of each part, and then the texts."""
    lines = ["# Licences of what the image holds", "", "| part | version | licence |", "| --- | --- | --- |"]
    lines.append(f"| Python | {contents['python']['version']} | {contents['python']['licence']} |")
    lines += [f"| {one['name']} | {one['version']} | {spdx(one['licence'])} |" for one in contents["packages"]]
    lines += [f"| {part['name']} (npm) | {part['version']} | {part['licence']} |" for part in _vendored(contents)]
    for one in contents.get("system_packages", ()):
        told = ", ".join(one["licences"]) or f"see /usr/share/doc/{one['name']}/copyright in the image"
        lines.append(f"| {one['name']} (Debian) | {one['version']} | {told} |")
    if "system_packages" not in contents:
        lines += ["", f"The packages of the base image {base_image()} are not listed: that takes a container engine."]
        if not contents["python"]["version"].startswith(f"{base_python()}."):
            lines += ["", f"Listed with Python {contents['python']['version']}; the image has {base_python()}."]
    for one in contents["packages"]:
        for file in one["licence_files"]:
            lines += ["", f"## {one['name']} {one['version']}: {file['name']}", "", "```text"]
            lines += [file["text"].replace("```", "'''").rstrip(), "```"]
    return "\n".join(lines) + "\n"


def table(contents: Contents) -> str:
    rows = sorted(contents["packages"], key=lambda one: -int(one["size"]))
    lines = ["| package | version | licence | MB |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {one['name']} | {one['version']} | {spdx(one['licence'])} | {megabytes(one['size'])} |" for one in rows
    ]
    lines.append(f"| the whole environment | | | {megabytes(contents['size'])} |")
    if "system_packages" in contents:
        whole = sum(one["size"] for one in contents["system_packages"])
        lines.append(f"| {len(contents['system_packages'])} packages of the base image | | | {megabytes(whole)} |")
    return "\n".join(lines) + "\n"


def megabytes(size: int) -> str:
    return f"{size / 1e6:.1f}"


def base_python() -> str:
    """Version of Python in the image, such as 3.13."""
    versions: list[str] = re.findall(r"^ARG PYTHON=(\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    (version,) = versions
    return version


def base_image() -> str:
    return f"python:{base_python()}-slim"


def normal(name: str) -> str:
    """A distribution's name as indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked_hashes() -> dict[str, list[str]]:
    entries = [entry.partition("==") for entry in re.split(r"\n(?=[a-z0-9])", LOCK.read_text())]
    return {normal(name): re.findall(r"--hash=(sha256:[0-9a-f]{64})", rest) for name, _, rest in entries if rest}


def epoch() -> int:
    """When this was committed, or what SOURCE_DATE_EPOCH says."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    told = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=True)
    return int(told.stdout)


if __name__ == "__main__":
    raise SystemExit(main())
