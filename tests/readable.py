# SPDX-License-Identifier: Apache-2.0
"""Copies of the project, its libraries and an interpreter that every user of the machine can read.

A checkout of root often lies in a folder that is closed to others, and so does a virtual environment.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

from tests.repository import ROOT

_HEAVY = frozenset({"kubernetes"})
"""Not needed for a local cluster, and half of everything."""
_NOT_RUN = shutil.ignore_patterns("test", "tests", "site-packages", "__pycache__", "idlelib", "tkinter", "*.a")
_VERSION = f"python{sys.version_info[0]}.{sys.version_info[1]}"


def copy_libraries(target: Path) -> Path:
    """The project and what the local cluster imports, in a folder for PYTHONPATH."""
    # With compiled files, which are good for the times of their sources.
    shutil.copytree(ROOT / "trainwright", target / "trainwright")
    for library in _closure("trainwright", "local"):
        for file in library.files or ():
            if ".." not in file.parts and file.parts[0] != "trainwright":
                source, made = Path(str(library.locate_file(file))), target / file
                if source.is_file():
                    made.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(source, made)
    _open(target)
    return target


def _closure(name: str, *extras: str, seen: set[str] | None = None) -> Iterator[Distribution]:
    """A distribution and what it requires, in turn."""
    seen = set() if seen is None else seen
    if name.lower() in seen | _HEAVY:
        return
    seen.add(name.lower())
    try:
        found = distribution(name)
    except PackageNotFoundError:
        return  # an extra that is not installed
    yield found
    for line in found.requires or ():
        required = Requirement(line)
        if required.marker is None or any(required.marker.evaluate({"extra": one}) for one in (*extras, "")):
            yield from _closure(required.name, *required.extras, seen=seen)


def python_for_others(target: Path) -> Path:
    """An interpreter of this version that every user can run: the machine's, else a copy of this one."""
    found = shutil.which(_VERSION, path="/usr/bin:/usr/local/bin")
    if found and subprocess.run([found, "-c", "import ssl, sqlite3"], capture_output=True, check=False).returncode == 0:
        return Path(found)
    base = Path(sys.base_prefix)
    made = target / "bin" / _VERSION
    made.parent.mkdir(parents=True)
    shutil.copy2((base / "bin" / _VERSION).resolve(), made)
    shutil.copytree(base / "lib" / _VERSION, target / "lib" / _VERSION, ignore=_NOT_RUN)
    for library in (base / "lib").glob("libpython*.so*"):
        shutil.copy2(library, target / "lib")
    _open(target)
    return made


def _open(folder: Path) -> None:
    for parent, _, files in os.walk(folder):
        Path(parent).chmod(0o755)
        for name in files:
            path = Path(parent, name)
            path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
