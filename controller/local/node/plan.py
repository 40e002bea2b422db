# SPDX-License-Identifier: Apache-2.0
"""What a container becomes: program, arguments, environment and working folder of a process."""

import asyncio
import fnmatch
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import trainwright
from trainwright.api.objects import Document, name_of
from trainwright.controller.local.node import outputs
from trainwright.controller.local.node.document import (
    ClusterSources,
    CreateError,
    expand,
    hostname_of,
    variables_of,
)
from trainwright.controller.local.node.files import write_fresh
from trainwright.controller.local.node.images import (
    DEFAULT,
    OWN,
    PYTHONS,
    Environment,
    Images,
    NodeAnnotations,
    command_of,
    no_command,
    refused_image,
    unrunnable_command,
)
from trainwright.controller.local.node.ports import PortRewriter, name_pattern
from trainwright.controller.local.node.volumes import Mount, Volumes
from trainwright.controller.runtime import ConfigurationError

# ---------------------------------------------------------------------- mode B
#
# What a pod's document says about names and paths, said for a process of this machine. In the values of variables, in
# command and arguments, names of the job's pods become 127.0.0.1, and mount paths become the folders of the volumes.
# The object is never changed. Names and paths that a program puts together itself are missed; mode A has no such limit.

LOCALHOST = "127.0.0.1"


@dataclass(slots=True)
class Rewriter:
    names: re.Pattern[str] | None
    """Finds the names of pods; None: none are replaced."""
    folders: Mapping[str, str]
    """Folder on this machine by mount path."""
    _paths: re.Pattern[str] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        mounted = sorted((_normal(path) for path in self.folders), key=len, reverse=True)
        self.folders = {_normal(path): folder for path, folder in self.folders.items()}
        if mounted := [path for path in mounted if path != "/"]:
            # A path begins where no longer path or word goes on before it (`s3://bucket/data` holds no `/data`), and
            # ends at a slash or where no name goes on.
            start = r"(?:(?<=file://)|(?<![\w./~@+-]))"
            self._paths = re.compile(rf"{start}(?:{'|'.join(map(re.escape, mounted))})(?=/|[^\w.-]|\.?$|\.\s)")

    def text(self, value: str) -> str:
        if self._paths is not None:
            value = self._paths.sub(lambda found: self.folders[found[0]], value)
        if self.names is not None:
            value = self.names.sub(LOCALHOST, value)
        return value

    def variables(self, values: Mapping[str, str]) -> dict[str, str]:
        return {name: self.text(value) for name, value in values.items()}

    def path(self, path: str) -> str | None:
        """The folder of a path that is mounted or lies in a mount; None: it lies in none."""
        path = _normal(path)
        for mounted in sorted(self.folders, key=len, reverse=True):
            if path == mounted or path.startswith(mounted.rstrip("/") + "/"):
                return self.folders[mounted] + path[len(mounted.rstrip("/")) :]
        return None


def _normal(path: str) -> str:
    return "/" + "/".join(part for part in path.split("/") if part not in {"", "."})


# ---------------------------------------------------------------------- the progress writer
#
# Other Python environments can import `trainwright.progress` without a copy, and nothing else of this environment: a
# folder with a package `trainwright`, whose only module is a link to the writer, goes to the end of PYTHONPATH.

FOLDER = "writer"
"""In the folder of the cluster."""
_PACKAGE = '''# SPDX-License-Identifier: Apache-2.0
"""The progress writer of the Trainwright that runs the local cluster."""

from pkgutil import extend_path

# An environment may have Trainwright itself: its other modules are found there.
__path__ = extend_path(__path__, __name__)
'''


def _writer(cluster: Path) -> str:
    """An entry of PYTHONPATH for environments that are not ours, made where it is missing. Raises CreateError."""
    folder = cluster / FOLDER
    package = folder / "trainwright"
    init, module = package / "__init__.py", package / "progress.py"
    writer = Path(trainwright.__file__).with_name("progress.py")
    try:
        package.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not init.is_file() or init.read_text(encoding="utf-8") != _PACKAGE:
            init.write_text(_PACKAGE, encoding="utf-8")
        if not (module.is_symlink() and module.readlink() == writer):
            module.unlink(missing_ok=True)
            # Another pod may have made it meanwhile.
            with suppress(FileExistsError):
                module.symlink_to(writer)
    except OSError as error:
        raise CreateError(f"{error.filename}: {error.strerror or error}") from error
    return str(folder)


# ---------------------------------------------------------------------- plans

_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_EXCEPTIONS = ("no_proxy", "NO_PROXY")
_OWN_HOSTS = ("127.0.0.1", "localhost")
INHERITED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TZ", "LANG", "LANGUAGE", "LC_*"),
    *_PROXIES,
    *_EXCEPTIONS,
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *("CUDA_HOME", "CUDA_PATH", "CUDA_CACHE_PATH", "LD_LIBRARY_PATH"),
    *("XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "TORCH_HOME", "TRITON_CACHE_DIR", "PIP_CACHE_DIR", "UV_CACHE_DIR"),
    "HF_ENDPOINT",
)
"""Variables of this process that containers inherit; `PREFIX_*` stands for all with a prefix."""

TERMINATION_PATH = "/dev/termination-log"
TERMINATION_VARIABLE = "TERMINATION_LOG"
"""In mode B it holds the path of the termination message file, since the one in the document is rewritten only where
the document names it."""
LOOPBACK = "lo"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPlan:
    command: Sequence[str]
    environment: dict[str, str]
    folder: str
    image_id: str
    mounts: Sequence[Mount]
    rewriter: Rewriter | None
    """Mode B: what does the same for the commands that run beside that of the container."""
    warnings: Sequence[str]
    """For events."""

    def rewritten(self, command: Sequence[str]) -> list[str]:
        """Mode B: a command that runs beside the process, with the same replacements; else as it is."""
        return list(command) if self.rewriter is None else [self.rewriter.text(word) for word in command]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    images: Images
    sources: ClusterSources
    inherited: Mapping[str, str]
    """Variables of this process that containers get."""
    service: Mapping[str, str]
    """KUBERNETES_SERVICE_HOST and its like."""
    rewrite: bool
    """Mode B."""
    pods: Callable[[], Iterable[Document]]
    """All pods of the node, for host names."""
    cluster: Path
    """The state folder."""


@dataclass(frozen=True, slots=True)
class Folders:
    container: Path
    logs: Path
    """The files of each run."""
    temporary: Path
    """TMPDIR of the pod."""

    @property
    def work(self) -> Path:
        """Working folder of a container that names none."""
        return self.container / "work"

    @property
    def termination(self) -> Path:
        """Where the container leaves its termination message."""
        return self.container / "termination-log"

    @property
    def programs(self) -> Path:
        """Put first on PATH where the names of programs need a folder of their own."""
        return self.container / "bin"

    def log(self, run: int) -> Path:
        """The first log file of a run; runs count from 0."""
        return self.logs / f"{run}.log"


async def make_plan(
    pod: Document,
    container: Document,
    volumes: Volumes,
    folders: Folders,
    workplace: Workplace,
    *,
    devices: Mapping[str, str],
    moved: Mapping[int, int],
) -> ContainerPlan:
    """The plan of a container. `devices` are variables that name its devices, `moved` the ports that differ.

    Raises CreateError for an image that cannot run here, ConfigError for a missing object of the environment.
    """
    asked = NodeAnnotations.of(pod, container["name"])
    try:
        environment = asked.environment(workplace.images.environment_of(container.get("image") or ""))
    except ConfigurationError as error:
        raise CreateError(str(error)) from error
    document_variables = await variables_of(pod, container, workplace.sources, service=workplace.service)
    known = {**workplace.service, **document_variables}
    mounts = volumes.mounts_of(container, known)
    if environment.refusal:
        # Where its volumes lie: what it would have made can be put there by hand.
        shown = ", ".join(f"{mount.path} is {mount.source}" for mount in mounts)
        raise CreateError(refused_image(container, environment) + (f" (its volumes: {shown})" if shown else ""))
    command = [expand(word, known) for word in command_of(container, environment)]
    if not command:
        raise CreateError(no_command(container, workplace.images))
    if why := unrunnable_command(command, environment, list(document_variables)):
        raise CreateError(f"container {container['name']} cannot run on a local cluster: {why}")
    if moved:
        ports = PortRewriter(pod, moved, workplace.pods())
        command = [ports.text(word) for word in command]
        document_variables = ports.variables(document_variables)
    termination = Mount(container.get("terminationMessagePath") or TERMINATION_PATH, str(folders.termination), False)
    if why := asked.missing():
        raise CreateError(why)
    owner = outputs.owner_of(pod, await workplace.sources.job_set(pod), workplace.cluster)
    output = await _output(asked, owner)
    named = await _own_folder(pod, output, folders) if asked.folder == OWN else asked.folder
    folder = named or container.get("workingDir") or environment.folder or str(folders.work)
    node_variables = {
        **devices,
        "HOSTNAME": hostname_of(pod),
        "TMPDIR": str(folders.temporary),
        "PYTHONUNBUFFERED": "1",
        **({outputs.VARIABLE: str(output)} if output else {}),
        **({outputs.CHECKPOINTS_VARIABLE: str(outputs.checkpoints_in(output, owner))} if output else {}),
        **workplace.service,
    }
    rewriter: Rewriter | None = None
    if workplace.rewrite:
        rewriter = Rewriter(
            name_pattern(pod, workplace.pods()), {mount.path: mount.source for mount in [*mounts, termination]}
        )
        command = [rewriter.text(word) for word in command]
        document_variables = rewriter.variables(document_variables)
        folder = _folder(rewriter, folder, folders)
        node_variables |= {TERMINATION_VARIABLE: str(folders.termination), "GLOO_SOCKET_IFNAME": LOOPBACK}
    variables = {**workplace.inherited, **environment.variables, **node_variables, **document_variables}
    if "PATH" not in document_variables:
        first = [*_pythons(environment, folders), *environment.folders]
        variables["PATH"] = os.pathsep.join([*first, variables.get("PATH") or os.defpath])
    if environment.folders != DEFAULT.folders:
        last = await asyncio.to_thread(_writer, workplace.cluster)
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, (variables.get("PYTHONPATH"), last)))
    return ContainerPlan(
        command=command,
        environment=variables,
        folder=folder,
        image_id=environment.image_id,
        mounts=[*mounts, termination],
        rewriter=rewriter,
        warnings=_existing(mounts) if rewriter is not None else [],
    )


def inherited(environ: Mapping[str, str], more: Sequence[str]) -> dict[str, str]:
    """The variables of this process that containers get."""
    patterns = [*INHERITED, *more]
    found = {name: value for name, value in environ.items() if any(fnmatch.fnmatchcase(name, one) for one in patterns)}
    if any(name in found for name in _PROXIES):
        # No proxy leads to the servers of this cluster, which listen on the loopback.
        for name in _EXCEPTIONS:
            hosts = [host for host in found.get(name, "").split(",") if host]
            if hosts != ["*"]:
                found[name] = ",".join([*hosts, *(host for host in _OWN_HOSTS if host not in hosts)])
    return found


async def _output(asked: NodeAnnotations, owner: outputs.OutputOwner) -> Path | None:
    """The folder for what the job makes, claimed for it; None if none is asked for. Raises CreateError."""
    if not asked.output and not asked.runs:
        return None
    try:
        if not asked.output:
            return await asyncio.to_thread(outputs.claim_below, Path(asked.runs), owner)
        await asyncio.to_thread(outputs.claim, Path(asked.output), owner)
    except outputs.OutputError as error:
        raise CreateError(str(error)) from error
    return Path(asked.output)


async def _own_folder(pod: Document, output: Path | None, folders: Folders) -> str:
    """A folder of the pod, which stays with the output. Raises CreateError."""
    if output is None:
        return str(folders.work)
    folder = output / outputs.PODS / name_of(pod)
    try:
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    except OSError as error:
        raise CreateError(f"working folder {folder} cannot be made: {error.strerror or error}") from error
    return str(folder)


def _pythons(environment: Environment, folders: Folders) -> list[str]:
    """A folder in which `python` and `python3` start the interpreter of the environment, if PATH alone has others."""
    if not environment.interpreter:
        return []
    folders.programs.mkdir(parents=True, exist_ok=True)
    for name in PYTHONS:
        # Not a link: an interpreter that is started by another path does not find its virtual environment.
        program = folders.programs / name
        # Replaced, not written in place: a container may have made it a link to an interpreter of the user.
        text = f'#!/bin/sh\nexec {shlex.quote(environment.interpreter)} "$@"\n'
        write_fresh(program, text.encode(), 0o700)
    return [str(folders.programs)]


def _existing(mounts: Iterable[Mount]) -> list[str]:
    return [
        f"{mount.path} exists on this machine: a program that puts this path together itself finds that, and not the"
        f" volume at {mount.source}"
        for mount in mounts
        if os.path.lexists(mount.path)
    ]


def _folder(rewriter: Rewriter, folder: str, folders: Folders) -> str:
    """Mode B: the working folder on this machine. One that neither a volume nor the machine has is the container's."""
    if (mounted := rewriter.path(folder)) is not None:
        Path(mounted).mkdir(parents=True, exist_ok=True)  # as container runtimes do
        return mounted
    return folder if Path(folder).is_dir() else str(folders.work)
