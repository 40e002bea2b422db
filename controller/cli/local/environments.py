# SPDX-License-Identifier: Apache-2.0
"""With which Python `trainwright local run` starts a script: that of the command line, of the shell, or ours."""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from trainwright.controller.cli.commands import WrongUseError
from trainwright.controller.cli.local.requirements import environment_for
from trainwright.controller.local.node.images import PYTHONS, Environment

_PROBE_SECONDS = 30.0
_PROBE = (
    "import json, os, sys; print(json.dumps({'executable': sys.executable, 'version': list(sys.version_info[:3]), "
    "'base': sys.base_prefix, 'platform': '-'.join((sys.platform, os.uname().machine))}))"
)
_VARIABLES = {"VIRTUAL_ENV": "virtual environment", "CONDA_PREFIX": "conda environment"}
_ISOLATED = ["-I", "-S"]


class Interpreter(TypedDict):
    executable: str
    version: list[int]
    base: str
    platform: str


@dataclass(frozen=True, slots=True)
class Chosen:
    python: str = ""
    """An environment or an interpreter; empty: what runs in place of the image of the container."""
    said: str = ""
    is_found: bool = False
    """It is that of the shell, not one that an option names. `images.yaml` takes precedence over it."""


def chosen(arguments: argparse.Namespace, environ: Mapping[str, str], say: Callable[[str], None]) -> Chosen:
    """The Python that the command line or the shell names. Makes the environment of `-r`, which may take minutes.

    Raises WrongUseError.
    """
    if arguments.python is None and not arguments.requirements:
        return active(environ)
    interpreter = _named(arguments.python, environ) if arguments.python is not None else ""
    if not arguments.requirements:
        found = _probed(interpreter)
        version = ".".join(map(str, found["version"]))
        # An environment stays what was named: its programs, such as torchrun, are beside its Python.
        folder = Path(str(arguments.python)).expanduser()
        python = folder.absolute() if folder.is_dir() else Path(found["executable"])
        return Chosen(str(python), f"Python {version} of {python if folder.is_dir() else _home_of(python)}")
    if not interpreter:
        interpreter = _interpreter_of(Path(shell)) if (shell := active(environ).python) else sys.executable
    found = _probed(interpreter)
    identity = json.dumps([found[key] for key in ("version", "base", "platform")])
    made = environment_for(arguments.requirements, found["executable"], identity, environ, say)
    return Chosen(str(made), f"Python of {made}, made from {', '.join(map(str, arguments.requirements))}")


def active(environ: Mapping[str, str]) -> Chosen:
    """The virtual or conda environment that is active in the shell, if it is not the one that we run in."""
    first = next(filter(None, (shutil.which(name, path=environ.get("PATH")) for name in PYTHONS)), "")
    folder = Path(first).parent if first else None
    if folder == Path(sys.prefix) / "bin":
        return Chosen()  # what `python` is in this shell
    named = [(Path(environ[name]), kind) for name, kind in _VARIABLES.items() if environ.get(name)]
    # Of an environment in another one, the inner one comes first on PATH.
    for prefix, kind in sorted(named, key=lambda one: one[0] / "bin" != folder):
        if prefix.resolve() == Path(sys.prefix).resolve():  # the one that we run in
            return Chosen()
        if _interpreter_of(prefix):
            return Chosen(str(prefix), f"Python of {prefix}, the active {kind}", is_found=True)
    if named:
        return Chosen(said=f"{named[0][0]}, the active {named[0][1]}, has no Python: using that of {sys.prefix}")
    return Chosen()


def unless_mapped(found: Chosen, images: Sequence[Environment]) -> Chosen:
    """The Python of a script, given the environments of the images of its containers: mapped ones go first."""
    mapped = next((one for one in images if one.mapped), None)
    if mapped is None or not found.is_found:
        return found
    return Chosen(said=f"using /{mapped.name.lstrip('/')} of images.yaml, not {found.python}, which is active")


def _named(text: str, environ: Mapping[str, str]) -> str:
    """The interpreter that `--python` means: a path, an environment, or a name on PATH. Raises WrongUseError."""
    path = Path(text).expanduser()
    if path.is_dir():
        if found := _interpreter_of(path):
            return found
        raise WrongUseError(f"--python: {text} is not an environment: it has no bin/python")
    found = str(path) if os.sep in text else shutil.which(text, path=environ.get("PATH")) or str(path)
    if not Path(found).is_file():
        raise WrongUseError(f"--python: there is no interpreter or environment {text}")
    return os.path.abspath(found)  # noqa: PTH100 - the link of a virtual environment is not followed


def _interpreter_of(prefix: Path) -> str:
    candidates = (str(prefix / "bin" / name) for name in PYTHONS)
    return next((path for path in candidates if os.access(path, os.X_OK)), "")


def _probed(interpreter: str) -> Interpreter:
    """What the interpreter says of itself. Raises WrongUseError if it is not a Python interpreter."""
    try:
        done = subprocess.run(
            [interpreter, *_ISOLATED, "-c", _PROBE],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
        if not done.returncode:
            found: Interpreter = json.loads(done.stdout)
            return found
    except OSError as error:
        raise WrongUseError(f"--python: {interpreter} does not start: {error.strerror}") from error
    except (ValueError, subprocess.TimeoutExpired):
        pass
    raise WrongUseError(f"--python: {interpreter} is not an interpreter of Python 3")


def _home_of(executable: Path) -> Path:
    """What people call the place of an interpreter: its environment, or the interpreter itself."""
    prefix = executable.parent.parent
    is_environment = (prefix / "pyvenv.cfg").is_file() or (prefix / "conda-meta").is_dir()
    return prefix if is_environment else executable
