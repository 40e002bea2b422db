# SPDX-License-Identifier: Apache-2.0
"""Compares the vendored parts of the dashboard's page with their digests, or takes them from a package.

`python hack/vendored.py` checks. `python hack/vendored.py PART PACKAGE.tgz` takes a newer version from what `npm pack`
wrote, after its version was set in vendored.json.
"""

import argparse
import base64
import hashlib
import json
import sys
import tarfile
from pathlib import Path
from typing import Any

VENDOR = Path(__file__).resolve().parent.parent / "controller" / "dashboard" / "page" / "vendor"
LIST = "vendored.json"
_OUR_OWN = frozenset({LIST, "README.md"})


def problems(vendor: Path = VENDOR) -> list[str]:
    """What differs from the digests; empty: nothing."""
    parts: dict[str, Any] = json.loads((vendor / LIST).read_text())
    known = {f"{part}/{file}": digest for part, about in parts.items() for file, digest in about["files"].items()}
    there = {str(path.relative_to(vendor)) for path in vendor.rglob("*") if path.is_file()} - _OUR_OWN
    found = [f"{name}: not in {LIST}" for name in sorted(there - known.keys())]
    for name, digest in sorted(known.items()):
        if name not in there:
            found.append(f"{name}: missing")
        elif hashlib.sha256((vendor / name).read_bytes()).hexdigest() != digest:
            found.append(f"{name}: differs from its digest")
    found += [f"{part}: has no LICENSE" for part in parts if f"{part}/LICENSE" not in there]
    return found


def take(part: str, package: Path, vendor: Path = VENDOR) -> None:
    """Write the files of a part from a package, and their digests.

    Raises ValueError: the package is another version than the list names.
    """
    parts: dict[str, Any] = json.loads((vendor / LIST).read_text())
    about = parts[part]
    with tarfile.open(package) as archive:
        manifest = json.load(_member(archive, "package.json"))
        if (manifest["name"], manifest["version"]) != (part, about["version"]):
            raise ValueError(f"{package} is {manifest['name']} {manifest['version']}, not {part} {about['version']}")
        for file in about["files"]:
            # Package files lie in a folder of their own; ours lie side by side.
            content = _member(archive, about["paths"].get(file, file)).read()
            (vendor / part / file).write_bytes(content)
            about["files"][file] = hashlib.sha256(content).hexdigest()
    about["integrity"] = "sha512-" + base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
    (vendor / LIST).write_text(json.dumps(parts, indent=2) + "\n")


def _member(archive: tarfile.TarFile, path: str) -> Any:
    found = archive.extractfile(f"package/{path}")
    if found is None:
        raise ValueError(f"the package has no file {path}")
    return found


def main() -> int:
    """Check or take; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", nargs="?", help="part to take from a package")
    parser.add_argument("package", nargs="?", type=Path, help="package that `npm pack` wrote")
    arguments = parser.parse_args()
    if arguments.part and not arguments.package:
        parser.error("name the package, too")
    if arguments.part:
        take(arguments.part, arguments.package)
    found = problems()
    print(*found or ["every vendored file is as its digest says"], sep="\n", file=sys.stderr if found else sys.stdout)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
