# SPDX-License-Identifier: Apache-2.0
"""What containers run: a container as plugins see and change it, and image, command and arguments of the trainer.

A plugin can read what a framework needs to know, and set what a framework needs to set. Everything else of the
container (resources, probes, security context, ...) belongs to the runtime and is not changed. Each write goes into the
template and into the ledger.

Some frameworks start the user's command through a wrapper. They cannot change the TrainJob, which is an input, and what
they write into the container would be replaced by the TrainJob's values. So they change these in `TrainerSettings`,
which the builder writes into the container.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from trainwright.api.kubernetes.core.v1 import (
    Container,
    ContainerPort,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    ObjectFieldSelector,
    ResourceRequirements,
    VolumeMount,
)
from trainwright.api.trainer.v1alpha1 import Trainer
from trainwright.api.trainer.v1alpha1.constants import ANNOTATION_COMPLETION_INDEX

TRAIN_JOB = "the TrainJob"
"""Source of values that a plugin copies from the TrainJob."""
RUNTIME = "the runtime"
"""Source of values that were in the template before any plugin ran."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One value in the output."""

    path: str
    """Path in the JobSet, with list items by key: `spec.replicatedJobs[node]…containers[node].env[PET_NNODES]`."""
    value: Any
    plugin: str
    """The plugin that wrote it; empty for the template, which is made before plugins run."""
    source: str
    """Where the value comes from: a plugin, `TRAIN_JOB`, or the patch of a manager."""
    phase: str
    why: str


@dataclass(frozen=True, slots=True)
class Override:
    """A value that one source set and another one replaced."""

    path: str
    loser: str
    winner: str

    def __str__(self) -> str:
        return f"{self.path}: the value of {self.winner} replaces the one of {self.loser}"


class Ledger:
    """Which plugin set which value in one run of the pipeline, and why.

    Every write of a plugin goes through the model of the contract and adds an entry. `trainwright render --explain`
    prints the entries. A value that was set twice, and differently, gives an override: a warning for the user.
    """

    __slots__ = ("_overrides", "_settings", "_written", "phase", "plugin")

    def __init__(self) -> None:
        self._settings: dict[str, Setting] = {}
        self._overrides: dict[str, Override] = {}
        self._written: list[str] = []
        self.plugin = ""
        """The plugin that writes now; set by the pipeline."""
        self.phase = "template"

    def begin(self, plugin: str, phase: str) -> None:
        """Attribute what follows to a plugin."""
        self.plugin, self.phase = plugin, phase
        self._written.clear()

    def copy(self) -> "Ledger":
        """A ledger that begins with the entries of this one."""
        copied = Ledger()
        copied._settings, copied._overrides = dict(self._settings), dict(self._overrides)
        return copied

    def record(self, path: str, value: Any, *, before: Any, why: str, source: str = "") -> None:
        """Note that the current plugin replaced `before` (None: no value) at the path by the value."""
        who = source or self.plugin
        self._written.append(path)
        earlier = self._settings.get(path)
        if earlier is not None and earlier.source == who and earlier.value == value:
            return
        if before is not None and before != value:
            self._replaced(path, earlier.source if earlier is not None else RUNTIME, who)
        self._settings[path] = Setting(path, value, self.plugin, who, self.phase, why)

    def found(self, path: str, value: Any, *, before: Any) -> None:
        """Note a value that the current plugin has set past this record, unless it is part of one that is in it."""
        if not any(path == one or _is_part(path, one) or _is_part(one, path) for one in self._written):
            self.record(path, value, before=before, why="set in info.template")
            self._written.pop()

    def carried(self, path: str, value: Any, *, why: str) -> None:
        """Note a value of the TrainJob that is in the template before plugins run."""
        self._settings[path] = Setting(path, value, "", TRAIN_JOB, "template", why)

    def patched(self, path: str, value: Any, *, before: Any, manager: str) -> None:
        """Note a value that an entry of runtimePatches set."""
        self.record(path, value, before=before, why="spec.runtimePatches", source=f"the patch of {manager}")

    def settings(self) -> tuple[Setting, ...]:
        """The last setting of each path, in the order in which the paths were first set."""
        return tuple(self._settings.values())

    def overrides(self) -> tuple[Override, ...]:
        """The last override of each path."""
        return tuple(self._overrides.values())

    def _replaced(self, path: str, loser: str, winner: str) -> None:
        """Note an override. Users and patches may replace values of the runtime; any other replacement is noted."""
        if winner != loser and (loser != RUNTIME or winner == self.plugin):
            self._overrides[path] = Override(path, loser, winner)


def _is_part(path: str, whole: str) -> bool:
    return path.startswith((f"{whole}.", f"{whole}["))


_TERMINATION_MESSAGE = "/dev/termination-log"
_INDEX_PATH = f"metadata.annotations['{ANNOTATION_COMPLETION_INDEX}']"


class ContainerModel:
    """A regular or an init container."""

    __slots__ = ("_container", "_ledger", "path")

    def __init__(self, container: Container, path: str, ledger: Ledger) -> None:
        self._container = container
        self._ledger = ledger
        self.path = path
        """Where it is in the JobSet."""

    @property
    def name(self) -> str:
        """Its name, unique within the list."""
        return self._container.name

    @property
    def image(self) -> str | None:
        """The image; None if the runtime names none."""
        return self._container.image

    @property
    def command(self) -> tuple[str, ...]:
        """The entry point in the template; empty if the image's is used."""
        return tuple(self._container.command or ())

    @property
    def args(self) -> tuple[str, ...]:
        return tuple(self._container.args or ())

    @property
    def env(self) -> tuple[EnvVar, ...]:
        return tuple(self._container.env or ())

    @property
    def ports(self) -> tuple[ContainerPort, ...]:
        return tuple(self._container.ports or ())

    @property
    def mounts(self) -> tuple[VolumeMount, ...]:
        return tuple(self._container.volume_mounts or ())

    @property
    def termination_message_path(self) -> str:
        """The file whose content becomes the message of the container's end; Kubernetes' default if none is set."""
        return self._container.termination_message_path or _TERMINATION_MESSAGE

    @property
    def termination_message_policy(self) -> str | None:
        """Where that message is taken from; None: from the file alone."""
        return self._container.termination_message_policy

    @property
    def resources(self) -> ResourceRequirements | None:
        """A copy of the resources, with those of the TrainJob merged in; plugins do not set them."""
        resources = self._container.resources
        return resources.deepcopy() if resources is not None else None

    def variable(self, name: str) -> EnvVar | None:
        return next((variable for variable in self._container.env or () if variable.name == name), None)

    def set_image(self, image: str, *, why: str, source: str = "") -> None:
        before, self._container.image = self._container.image, image
        self._record("image", image, before, why, source)

    def set_command(self, command: list[str], *, why: str, source: str = "") -> None:
        """Replace the entry point; an empty list selects the image's."""
        before, self._container.command = self._container.command, list(command) or None
        self._record("command", list(command), before, why, source)

    def set_args(self, args: list[str], *, why: str, source: str = "") -> None:
        """Replace the arguments; an empty list removes them."""
        before, self._container.args = self._container.args, list(args) or None
        self._record("args", list(args), before, why, source)

    def set_termination_message_policy(self, policy: str, *, why: str) -> None:
        """Say where Kubernetes takes the message of the container's end from."""
        before, self._container.termination_message_policy = self._container.termination_message_policy, policy
        self._record("terminationMessagePolicy", policy, before, why)

    def set_env(self, name: str, value: str, *, why: str) -> None:
        """Set a variable to a literal value. An existing variable keeps its place; a new one goes to the end."""
        self.set_variable(EnvVar(name=name, value=value), why=why)

    def set_completion_index(self, name: str, *, why: str) -> None:
        """Set a variable to the index of the pod within its job, which Kubernetes puts into an annotation."""
        field = ObjectFieldSelector(field_path=_INDEX_PATH)
        self.set_variable(EnvVar(name=name, value_from=EnvVarSource(field_ref=field)), why=why)

    def set_variable(self, variable: EnvVar, *, why: str, source: str = "") -> None:
        """Set a variable from any source. An existing variable keeps its place; a new one goes to the end."""
        if self._container.env is None:
            self._container.env = []
        before = upsert(self._container.env, variable, lambda other: other.name == variable.name)
        self._record(f"env[{variable.name}]", variable, before, why, source)

    def set_port(self, port: ContainerPort, *, why: str) -> None:
        """Declare a port; `upsert_port` says which port it replaces."""
        if self._container.ports is None:
            self._container.ports = []
        before = upsert_port(self._container.ports, port)
        self._record(f"ports[{port.container_port}]", port, before, why)

    def set_mount(self, mount: VolumeMount, *, why: str) -> None:
        """Mount a volume; a mount at the same path is replaced."""
        if self._container.volume_mounts is None:
            self._container.volume_mounts = []
        before = upsert(self._container.volume_mounts, mount, lambda other: other.mount_path == mount.mount_path)
        self._record(f"volumeMounts[{mount.mount_path}]", mount, before, why)

    def add_env_from(self, item: EnvFromSource, *, why: str, source: str = "") -> None:
        """Add all keys of a Secret or ConfigMap as variables; variables that `env` lists take precedence."""
        self._container.env_from = [*(self._container.env_from or ()), item]
        self._record(f"envFrom[{len(self._container.env_from) - 1}]", item, None, why, source)

    def _record(self, what: str, value: object, before: object, why: str, source: str = "") -> None:
        self._ledger.record(f"{self.path}.{what}", value, before=before, why=why, source=source)


T = TypeVar("T")


def upsert(items: list[T], item: T, same: Callable[[T], bool]) -> T | None:
    """Set an item in the place of the first one that is the same; returns that one."""
    for index, other in enumerate(items):
        if same(other):
            items[index] = item
            return other
    items.append(item)
    return None


def upsert_port(items: list[ContainerPort], item: ContainerPort) -> ContainerPort | None:
    """Set a port; returns the one that it replaced.

    It replaces the port with the same number or the same name. A port without a name also replaces the only other port
    without a name, whatever its number: Kubeflow Trainer does so, and the JobSets of existing jobs cannot be changed.
    With several ports without a name it is ambiguous which one to replace, so the port is added.
    """
    return upsert(items, item, lambda other: other is _port_like(items, item))


def _port_like(items: Sequence[ContainerPort], item: ContainerPort) -> ContainerPort | None:
    for other in items:
        if other.container_port == item.container_port or (item.name and other.name == item.name):
            return other
    nameless = [other for other in items if not other.name]
    return nameless[0] if len(nameless) == 1 and not item.name else None


class TrainerSettings:
    """None keeps the runtime's value; an empty list clears it."""

    __slots__ = ("_args", "_command", "_image", "_ledger", "_why")

    def __init__(self, trainer: Trainer, ledger: Ledger) -> None:
        self._ledger = ledger
        self._image = trainer.image
        self._command = _copied(trainer.command)
        self._args = _copied(trainer.args)
        self._why: dict[str, tuple[str, str]] = {}

    @property
    def image(self) -> str | None:
        """The image of the TrainJob."""
        return self._image

    @property
    def command(self) -> tuple[str, ...] | None:
        """The command of the TrainJob, or the one that a plugin set."""
        return None if self._command is None else tuple(self._command)

    @property
    def args(self) -> tuple[str, ...] | None:
        """The arguments of the TrainJob, or those that a plugin set."""
        return None if self._args is None else tuple(self._args)

    def set_command(self, command: list[str], *, why: str) -> None:
        self._command = list(command)
        self._why["command"] = (self._ledger.plugin, why)

    def set_args(self, args: list[str] | None, *, why: str) -> None:
        """Replace the arguments; None keeps those of the runtime."""
        self._args = _copied(args)
        self._why["args"] = (self._ledger.plugin, why)

    def origin(self, what: str) -> tuple[str, str] | None:
        """The plugin that last set `command` or `args`, and why; None while they are the TrainJob's."""
        return self._why.get(what)


def _copied(items: list[str] | None) -> list[str] | None:
    return None if items is None else list(items)
