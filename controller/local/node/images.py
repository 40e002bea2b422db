# SPDX-License-Identifier: Apache-2.0
"""What runs in place of an image, and what a pod asks of the node by annotations. Nothing is pulled."""

import fnmatch
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from trainwright.api.objects import Document, annotations_of
from trainwright.controller.runtime import ConfigurationError

# ---------------------------------------------------------------------- images.yaml
#
# It maps images to environments of this machine, the first match wins:
#
#     images:
#       - image: "docker.io/pytorch/*"       # a pattern as in a shell
#         environment: ~/venvs/torch         # a virtual environment, or an interpreter
#         command: [python, train.py]        # runs if the container has no command
#         workingDir: ~/projects/mnist
#         env: {OMP_NUM_THREADS: "1"}
#       - image: "*/mpi-runtime*"
#         refuse: MPI needs sshd and fixed paths, which a local cluster does not have
#
# Without an entry the environment is that of this process.

PYTHONS = ("python", "python3")
"""The names by which commands of containers call Python. Debian, for one, has no `python`."""
_KEYS = frozenset({"image", "environment", "command", "workingDir", "env", "refuse"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
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
        return f"local://{self.name}"


class Images:
    """Patterns and their environments: of `images.yaml` as it changes, then those of the program around the node.

    Raises ConfigurationError: the file has a mistake; the text says where.
    """

    def __init__(self, path: Path | None = None, *, defaults: Sequence[tuple[str, Environment]] = ()) -> None:
        self.file = str(path or "images.yaml")
        """Named in messages."""
        self._path = path
        self._defaults = self._entries = tuple(defaults)
        self._read: tuple[int, int] | None = None
        self._follow()

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


# ---------------------------------------------------------------------- annotations
#
# What a pod asks of the node, by annotations that name one of its containers. A TrainJob has no fields for these, and
# nodes of a real cluster do not read them.
#
#     workdir.trainwright.dev/node: /home/me/project   the container starts in this folder of the machine
#     workdir.trainwright.dev/node: pod                in a folder of its pod, which is kept below the output
#     output.trainwright.dev/node: /home/me/model      TRAINWRIGHT_OUTPUT_DIR is this folder
#     runs.trainwright.dev/node: /home/me/runs         TRAINWRIGHT_OUTPUT_DIR is the job's own folder below this one
#     python.trainwright.dev/node: /home/me/venv       `python` is that of this environment, or this interpreter

WORKDIR = "workdir.trainwright.dev/"
OUTPUT = "output.trainwright.dev/"
RUNS = "runs.trainwright.dev/"
PYTHON = "python.trainwright.dev/"
PREFIXES = (WORKDIR, OUTPUT, RUNS, PYTHON)
"""Each is followed by the name of a container."""
OWN = "pod"
"""Of WORKDIR: a folder of the pod's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAnnotations:
    folder: str = ""
    """An absolute path, or `pod`."""
    output: str = ""
    runs: str = ""
    python: str = ""

    @classmethod
    def of(cls, pod: Document, container: str) -> "NodeAnnotations":
        found = annotations_of(pod)
        folder, output, runs, python = (str(found.get(f"{prefix}{container}") or "") for prefix in PREFIXES)
        return cls(folder=folder, output=output, runs=runs, python=python)

    def missing(self) -> str:
        """Why the folder cannot be used; empty if it can."""
        if not self.folder or self.folder == OWN or Path(self.folder).is_dir():
            return ""
        return f"working folder {self.folder} does not exist: make it, or name another one"

    def environment(self, mapped: Environment) -> Environment:
        """The environment of the container, instead of the one that its image has. Raises ConfigurationError."""
        if not self.python:
            return mapped
        name, folders, interpreter = located(self.python, "the Python that the job names")
        variables = {**mapped.variables, **_of_activation(Path(folders[0]).parent)}
        return replace(mapped, name=name, folders=folders, interpreter=interpreter, variables=variables, mapped=True)


def _of_activation(prefix: Path) -> dict[str, str]:
    """What the activation of an environment would set, beside PATH."""
    if (prefix / "pyvenv.cfg").is_file():
        return {"VIRTUAL_ENV": str(prefix)}
    return {"CONDA_PREFIX": str(prefix)} if (prefix / "conda-meta").is_dir() else {}


# ---------------------------------------------------------------------- what cannot run
#
# Known before a pod exists, so programs that submit work can ask first.

_MPI = frozenset({"mpirun", "mpiexec"})
_FLUX = "/etc/flux-config/"
"""Where the scripts of a Flux job are mounted. They copy from and to fixed paths of their images."""


def unrunnable(container: Document, images: Images) -> str:
    """Why a container of a template cannot run here: a sentence without the container's name; empty if it can.

    Variables with `valueFrom` count by their names.
    """
    environment = images.environment_of(container.get("image") or "")
    if environment.refusal:
        return refused_image(container, environment)
    command = command_of(container, environment)
    if not command:
        return no_command(container, images)
    return unrunnable_command(command, environment, [str(one.get("name")) for one in container.get("env") or ()])


def command_of(container: Document, environment: Environment) -> list[str]:
    """The words of the command; empty if there is none.

    As with images: the container's command replaces the default one, args follow it.
    """
    command = container.get("command") or environment.command
    return [*command, *(container.get("args") or ())] if command else []


def refused_image(container: Document, environment: Environment) -> str:
    """Why an image cannot run, as `images.yaml` or the program around the node says."""
    return f"image {container.get('image') or ''} cannot run here: {environment.refusal}"


def no_command(container: Document, images: Images) -> str:
    image = container.get("image") or ""
    return (
        f"the image is not pulled, and the container has no command; add to {images.file} under images:"
        f' - {{image: "{image}", command: [...]}}'
    )


def unrunnable_command(command: Sequence[str], environment: Environment, variables: Sequence[str]) -> str:
    """Why a command cannot run here: it needs a remote shell or fixed paths of its image; empty if it can.

    `variables` are the names of the container's variables. What `images.yaml` maps is taken to run.
    """
    if environment.mapped:
        return ""
    program = PurePosixPath(command[0]).name
    if program == "sshd":
        return "it starts sshd, which has no keys and no port of its own here"
    if program in _MPI and any("hostfile" in name.lower() for name in variables):
        return f"{program} reaches the other pods through sshd, which does not run here"
    # The script may be the argument of a shell.
    if any(word.startswith(_FLUX) for word in command[:2]):
        return "Flux needs fixed paths of its image"
    return ""
