# SPDX-License-Identifier: Apache-2.0
"""What an installation of Python holds, as JSON on standard output: distributions, their licences and sizes.

It runs in the image (`make build-image` passes it to the image's Python) or in any environment made from the same lock,
so it needs the standard library only. `--system` adds the packages of a Debian system, as the base image has them.
"""

import json
import platform
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

_LICENCE_FILE = re.compile(r"(licen[cs]e|copying|notice|authors)", re.IGNORECASE)
_CLASSIFIER = "License :: OSI Approved :: "
_DPKG = Path("/var/lib/dpkg/status")
_DOC = Path("/usr/share/doc")


def main() -> int:
    prefix = Path(sys.prefix)
    found = {
        "python": {"version": platform.python_version(), "licence": "PSF-2.0"},
        "architecture": platform.machine(),
        "size": sum(file.lstat().st_size for file in prefix.rglob("*") if file.is_file()),
        "packages": sorted(map(package, metadata.distributions()), key=lambda one: str(one["name"]).lower()),
    }
    if "--system" in sys.argv[1:]:
        found |= {"system": platform.freedesktop_os_release(), "system_packages": list(system_packages())}
    json.dump(found, sys.stdout, indent=1)
    print()
    return 0


def package(distribution: metadata.Distribution) -> dict[str, Any]:
    """A distribution. Sizes in bytes, compiled modules included."""
    about: Any = distribution.metadata
    files = [Path(str(distribution.locate_file(file))) for file in distribution.files or ()]
    there = [file for file in files if file.is_file()]
    return {
        "name": about["Name"],
        "version": distribution.version,
        "summary": about.get("Summary", ""),
        "licence": licence(about),
        "licence_files": [
            {"name": file.name, "text": file.read_text(encoding="utf-8", errors="replace")}
            for file in sorted(there)
            if ".dist-info" in str(file) and _LICENCE_FILE.match(file.name)
        ],
        "vendored": [
            {"name": name, "version": part["version"], "licence": part["licence"]}
            for file in there
            if file.name == "vendored.json"
            for name, part in sorted(json.loads(file.read_text(encoding="utf-8")).items())
        ],
        "needs": sorted({name for line in distribution.requires or () if (name := needed(line))}),
        "files": len(there),
        "size": sum(file.stat().st_size for file in there),
    }


def licence(about: Any) -> str:
    """As its metadata says: the SPDX expression, else the classifiers, else the words; empty if there is nothing."""
    if expression := about.get("License-Expression"):
        return str(expression)
    classifiers = [line.removeprefix(_CLASSIFIER) for line in about.get_all("Classifier") or () if _CLASSIFIER in line]
    words = str(about.get("License") or "").strip()
    # Some have the whole text there.
    short = words if words and "\n" not in words and len(words) < 80 else ""
    return short or " AND ".join(classifiers)


def needed(requirement: str) -> str:
    """Name of a distribution that is always needed; empty for one of an extra."""
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    return "" if name is None or re.search(r"\bextra\s*==", requirement) else name[0]


def system_packages() -> Iterator[dict[str, Any]]:
    """The installed packages of Debian; none on other systems."""
    if not _DPKG.is_file():
        return
    for entry in _DPKG.read_text(encoding="utf-8").split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", entry, re.MULTILINE))
        if not fields.get("Status", "").endswith(" installed"):
            continue
        copyright_file = _DOC / fields["Package"] / "copyright"
        text = copyright_file.read_text(encoding="utf-8", errors="replace") if copyright_file.is_file() else ""
        yield {
            "name": fields["Package"],
            "version": fields["Version"],
            "architecture": fields["Architecture"],
            # Only copyright files in Debian's format for programs say it so.
            "licences": sorted({words.strip() for words in re.findall(r"(?m)^License: (\S.*)$", text)}),
            "size": int(fields.get("Installed-Size", 0)) * 1024,
        }


if __name__ == "__main__":
    raise SystemExit(main())
