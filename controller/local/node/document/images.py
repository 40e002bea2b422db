# SPDX-License-Identifier: Apache-2.0
"""What runs in place of an image. Nothing is pulled.

`images.yaml` maps images to environments of this machine, the first match wins:

    images:
      - image: "docker.io/pytorch/*"       # a pattern as in a shell
        environment: ~/venvs/torch         # a virtual environment, or an interpreter
        command: [python, train.py]        # runs if the container has no command
        workingDir: ~/projects/mnist
        env: {OMP_NUM_THREADS: "1"}
      - image: "*/mpi-runtime*"
        refuse: MPI needs sshd and fixed paths, which a local cluster does not have

Without an entry the environment is that of this process.
"""

import fnmatch
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from trainwright.controller.runtime import ConfigurationError

PYTHONS = ("python", "python3")
"""The names by which commands of containers call Python. Debian, for one, has no `python`."""
_KEYS = frozenset({"image", "environment", "command", "workingDir", "env", "refuse"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """An environment of this machine."""

    name: str
    """For `imageID` and messages."""
    folders: tuple[str, ...]
    """Put first on PATH."""
    interpreter: str = ""
    """What `python` and `python3` start; empty: what PATH has."""
    variables: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    """Default command; empty: the container has to have one."""
    folder: str = ""
    """Working folder; empty: one of the container's own."""
    refusal: str = ""
    """Why containers of this image cannot run here; empty: they can."""
    mapped: bool = True
    """Whether `images.yaml` names it."""

    @property
    def image_id(self) -> str:
        """`imageID` of the container's status."""
        return f"local://{self.name}"


class Images:
    """Patterns and their environments. Those of a file follow its changes."""

    def __init__(self, entries: Sequence[tuple[str, Environment]] = (), *, file: str = "images.yaml") -> None:
        self._entries = tuple(entries)
        self._defaults: tuple[tuple[str, Environment], ...] = ()
        self._path: Path | None = None
        self._read: tuple[int, int] | None = None
        self.file = file
        """Named in messages."""

    @classmethod
    def read(cls, path: Path, *, defaults: Sequence[tuple[str, Environment]] = ()) -> "Images":
        """Read the file; without one there are no entries.

        Args:
            path: of the file.
            defaults: entries that come after those of the file, of the program that embeds the node.

        Raises:
            ConfigurationError: the file has a mistake; the text says where.
        """
        made = cls(defaults, file=str(path))
        made._path, made._defaults = path, tuple(defaults)
        made._follow()
        return made

    def environment_of(self, image: str) -> Environment:
        """The environment for an image. Raises ConfigurationError if the file was changed and has a mistake now."""
        self._follow()
        for pattern, environment in self._entries:
            if any(fnmatch.fnmatchcase(name, pattern) for name in _names(image)):
                return environment
        return DEFAULT

    def _follow(self) -> None:
        """Read the file again if it is not the one that was read."""
        if self._path is None:
            return
        try:
            found = self._path.stat()
            seen: tuple[int, int] | None = (found.st_mtime_ns, found.st_size)
        except FileNotFoundError:
            seen = None
        if seen != self._read:
            self._entries = (*(_entries(self._path) if seen is not None else ()), *self._defaults)
            self._read = seen


def _entries(path: Path) -> list[tuple[str, Environment]]:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{path}: {error}") from error
    listed = document.get("images") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise ConfigurationError(f"{path}: write a list under `images`")
    return [_entry(one, f"{path}: images[{index}]") for index, one in enumerate(listed)]


def _names(image: str) -> tuple[str, ...]:
    """The image as written, and without registry defaults: `docker.io/library/python:3` is also `python:3`."""
    short = image.removeprefix("docker.io/").removeprefix("library/")
    return (image,) if short == image else (image, short)


def _entry(entry: Any, place: str) -> tuple[str, Environment]:
    if not isinstance(entry, dict) or not isinstance(entry.get("image"), str):
        raise ConfigurationError(f"{place}: write `image` with a pattern")
    if unknown := sorted(set(entry) - _KEYS):
        raise ConfigurationError(f"{place}: unknown {', '.join(unknown)}; use {', '.join(sorted(_KEYS))}")
    command = entry.get("command") or []
    variables = entry.get("env") or {}
    if not isinstance(command, list) or not isinstance(variables, dict):
        raise ConfigurationError(f"{place}: `command` is a list, `env` a mapping")
    where = entry.get("environment")
    name, folders, interpreter = (DEFAULT.name, DEFAULT.folders, "") if where is None else located(str(where), place)
    folder = entry.get("workingDir")
    return entry["image"], Environment(
        name=name,
        folders=folders,
        interpreter=interpreter,
        variables={str(key): str(value) for key, value in variables.items()},
        command=tuple(str(word) for word in command),
        folder="" if folder is None else str(Path(str(folder)).expanduser()),
        refusal=str(entry.get("refuse") or ""),
    )


def located(text: str, place: str) -> tuple[str, tuple[str, ...], str]:
    """Name, folders for PATH and interpreter of an environment. Raises ConfigurationError, which names `place`."""
    path = Path(text).expanduser()
    if path.is_file():
        return str(path), (str(path.parent),), _unless_found(path, path.parent)
    if (path / "bin").is_dir():
        found = next((path / "bin" / name for name in PYTHONS if (path / "bin" / name).is_file()), None)
        return str(path), (str(path / "bin"),), "" if found is None else _unless_found(found, found.parent)
    raise ConfigurationError(f"{place}: {path} is neither an interpreter nor a virtual environment")


def _unless_found(interpreter: Path, folder: Path) -> str:
    """The interpreter, unless its names lead to it in the folder anyway, as in virtual environments."""
    program = interpreter.resolve()
    return "" if all((folder / name).resolve() == program for name in PYTHONS) else str(interpreter)


DEFAULT = Environment(name=sys.prefix.strip("/"), folders=(str(Path(sys.executable).parent),), mapped=False)
"""The environment that this process runs in."""
