# SPDX-License-Identifier: Apache-2.0
"""What the node offers to all its pods: sources, plans, processes in namespaces, events."""

import asyncio
import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from trainwright.api.objects import Document, spec_of, uid_of
from trainwright.controller.local.node.document import ClusterSources, CreateError, hostname_of
from trainwright.controller.local.node.files import write_fresh
from trainwright.controller.local.node.machine import Gpus, discover, usable_cpus
from trainwright.controller.local.node.plan import LOCALHOST, ContainerPlan, Folders, Workplace, inherited, make_plan
from trainwright.controller.local.node.ports import REFUSED, Ports, names_of, peers_of
from trainwright.controller.local.node.process import supervision
from trainwright.controller.local.node.process.ends import ExitOrderTracker
from trainwright.controller.local.node.process.supervision import LAUNCHER, ContainerProcess, ProcessSpec, Spawner
from trainwright.controller.local.node.settings import Isolation, NodeSettings
from trainwright.controller.local.node.volumes import Mount, Volumes
from trainwright.controller.runtime import ConfigurationError
from trainwright.controller.runtime.tasks import TaskScope

# ---------------------------------------------------------------------- mode A from the outside

log = logging.getLogger(__name__)

PROBE_SECONDS = 5.0
NSSWITCH = "hosts: files dns\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    command: Sequence[str]
    folder: str
    hostname: str = ""
    scratch: str = ""
    """A folder of the launcher."""
    mounts: Sequence[Mount | tuple[str, str, bool]] = ()
    """Source on this machine, path, whether it is read-only."""
    join: int = 0
    """Join the namespaces of this launcher instead of making new ones."""
    terminal: bool = False
    """Whether standard input is a terminal, which the program gets as its own."""


def launcher_command(launch: Launch, file: Path) -> list[str]:
    """Write the file of a launch and return the command of its launcher, to which the guard adds a descriptor."""
    write_fresh(file, json.dumps(asdict(launch)).encode())
    return [sys.executable, "-I", "-S", str(LAUNCHER), str(file)]


def container_launch(
    pod: Document,
    command: Sequence[str],
    folder: str,
    mounts: Sequence[Mount],
    *,
    scratch: Path,
    work: Path,
) -> Launch:
    """The launch of a container. Writes nsswitch.conf and hostname in `scratch`, which has `hosts`.

    A working folder that neither the machine nor a volume has is `work`.
    """
    nsswitch = scratch / "nsswitch.conf"
    write_fresh(nsswitch, NSSWITCH.encode(), 0o644)
    shown = [(mount.source, mount.path, mount.read_only) for mount in mounts]
    if not Path(folder).is_dir() and not any(_lies_in(folder, mount.path) for mount in mounts):
        shown.append((str(work), folder, False))
    for mount in mounts:
        if _lies_in(folder, mount.path):
            Path(mount.source + folder[len(mount.path) :]).mkdir(parents=True, exist_ok=True)
    hostname = scratch / "hostname"
    write_fresh(hostname, f"{hostname_of(pod)}\n".encode(), 0o644)
    shown += [
        (str(scratch / "hosts"), "/etc/hosts", False),
        (str(hostname), "/etc/hostname", False),
        (str(nsswitch), "/etc/nsswitch.conf", True),
    ]
    return Launch(
        command=command,
        folder=folder,
        hostname=hostname_of(pod),
        scratch=str(scratch),
        mounts=shown,
    )


def _lies_in(path: str, mounted: str) -> bool:
    return path == mounted or path.startswith(mounted.rstrip("/") + "/")


def hosts_text(pod: Document, pods: Iterable[Document]) -> str:
    """The hosts file of a pod: the machine's loopback, its own names, those of the pods of its job, its aliases."""
    lines = [f"{LOCALHOST}\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback"]
    own = [*names_of(pod), hostname_of(pod)]
    lines.append(f"{LOCALHOST}\t{' '.join(dict.fromkeys(own))}")
    lines += [f"{LOCALHOST}\t{' '.join(names_of(peer))}" for peer in peers_of(pod, pods) if peer is not pod]
    for alias in spec_of(pod).get("hostAliases") or ():
        lines.append(f"{alias['ip']}\t{' '.join(alias.get('hostnames') or ())}")
    return "\n".join(lines) + "\n"


def write_hosts(file: Path, text: str) -> None:
    """Write a hosts file in place: it is mounted by containers, which would not see a new one."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
        stream.truncate()


def probe() -> str:
    """Run something in namespaces once. Returns why that does not work here; empty if it does."""
    with tempfile.TemporaryDirectory(prefix="trainwright-probe-") as made:
        return _try_out(Path(made))


def _try_out(scratch: Path) -> str:
    data = scratch / "data"
    data.mkdir()
    (data / "file").write_text("seen")
    (scratch / "hosts").write_text(f"{LOCALHOST} trainwright-probe.example\n")
    code = (
        "import socket; assert open('/trainwright-probe/data/file').read() == 'seen';"
        f" assert socket.gethostbyname('trainwright-probe.example') == '{LOCALHOST}'"
    )
    pod: Document = {"metadata": {"name": "trainwright-probe"}}
    command = [sys.executable, "-I", "-S", "-c", code]
    mounts = [Mount("/trainwright-probe/data", str(data), read_only=True)]
    launch = container_launch(pod, command, "/", mounts, scratch=scratch, work=scratch)
    read, write = os.pipe()
    try:
        done = subprocess.run(
            [*launcher_command(launch, scratch / "launch.json"), str(write)],
            pass_fds=[write],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"a process in namespaces did not end within {PROBE_SECONDS:g} s"
    finally:
        os.close(write)
        with os.fdopen(read, "rb") as stream:
            os.set_blocking(read, False)
            failure = (stream.read(4096) or b"").decode("utf-8", "replace")
    if failure or done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return failure or f"a process in namespaces failed: {said[-1] if said else f'exit code {done.returncode}'}"
    return ""


# ---------------------------------------------------------------------- what pods get


class Hosting:
    """One node as its pods see it. Of pods it keeps only who has which GPUs and ports."""

    def __init__(
        self,
        settings: NodeSettings,
        sources: ClusterSources,
        *,
        server: str,
        pods: Callable[[], Iterable[Document]],
        event: Callable[[Document, str, str, str], None],
        released: Callable[[], None],
    ) -> None:
        """`server`: URL of the API server, which pods find in their variables."""
        self.settings = settings
        self.isolation = settings.isolation
        """NAMESPACES or REWRITE, once it is open."""
        self.gpus = Gpus()
        self.ports = Ports()
        self.spawner = Spawner()
        self.exits = ExitOrderTracker()
        # More at once than there are CPUs start none of them earlier, and hold up the event loop.
        self._starts = asyncio.Semaphore(usable_cpus())
        self.sources = sources
        self.event = event
        self._released = released
        self._writing_hosts = threading.Lock()
        self._workplace = Workplace(
            images=settings.images,
            sources=sources,
            inherited=inherited(os.environ, settings.inherit),
            service=_service_variables(server),
            rewrite=True,
            pods=pods,
            cluster=settings.folder,
        )

    async def plan(self, pod: Document, container: Document, volumes: Volumes, folders: Folders) -> ContainerPlan:
        """What a container runs. Raises ConfigError, CreateError."""
        if not self.ports.admit(pod, self._workplace.pods()):
            raise CreateError(REFUSED)
        return await make_plan(
            pod,
            container,
            volumes,
            folders,
            self._workplace,
            devices=self.gpus.variables(pod, container),
            moved=self.ports.moved(pod),
        )

    def release(self, pod: Document) -> None:
        """Nothing of the pod runs any more: others can have its devices and ports. It can be called again."""
        self.gpus.release(uid_of(pod))
        self.ports.release(pod)
        self._released()

    async def open(self) -> None:
        """Find out what the machine has: GPUs, and how containers get their names and paths.

        Raises ConfigurationError if namespaces are demanded and do not work.
        """
        settings = self.settings
        self.gpus = Gpus(await asyncio.to_thread(discover), share=settings.share_gpus)
        why = "isolation is rewrite" if settings.isolation is Isolation.REWRITE else await asyncio.to_thread(probe)
        if why and settings.isolation is Isolation.NAMESPACES:
            raise ConfigurationError(f"namespaces do not work on this machine: {why}")
        self.isolation = Isolation.REWRITE if why else Isolation.NAMESPACES
        self._workplace = replace(self._workplace, rewrite=bool(why))
        log.info("node %s: isolation by %s %s", settings.name, self.isolation, why)

    def close(self) -> None:
        """Give back what the node holds of the machine, when no pod runs any more. Blocks."""
        self.ports.close()
        self.gpus.close()
        self.spawner.close()

    async def start(
        self,
        pod: Document,
        spec: ProcessSpec,
        plan: ContainerPlan,
        mark: Path,
        tasks: TaskScope,
        *,
        join: ContainerProcess | None,
    ) -> ContainerProcess:
        """Start a process, beside that of `join` if it is given. Raises ProgramStartError, OSError."""
        if not self._workplace.rewrite:
            pid = join.pid if join is not None else 0
            launcher = await asyncio.to_thread(self._launcher, pod, spec, plan, mark, pid)
            spec = replace(spec, launcher=launcher)
        async with self._starts:
            return await supervision.start(
                spec,
                mark=mark,
                follow=tasks.start,
                spawn=self.spawner.start,
                # What runs beside a container says nothing about which one failed first.
                exits=self.exits if join is None else None,
            )

    def _launcher(self, pod: Document, spec: ProcessSpec, plan: ContainerPlan, mark: Path, join: int) -> list[str]:
        scratch = self._scratch(mark.parent)
        scratch.mkdir(exist_ok=True)
        if join:
            launch = Launch(command=spec.command, folder=spec.folder, join=join, terminal=spec.terminal)
        else:
            with self._writing_hosts:
                write_hosts(scratch / "hosts", hosts_text(pod, self._workplace.pods()))
            work = mark.parent / "work"
            launch = container_launch(pod, spec.command, spec.folder, plan.mounts, scratch=scratch, work=work)
        return launcher_command(launch, scratch / f"{mark.stem}.json")

    def write_hosts(self, pod: Document, container: Path) -> None:
        """Bring the hosts file of a container up to date; `container` is its folder. Rewriting has none."""
        file = self._scratch(container) / "hosts"
        # Looked for, made and written in one go: a thread with an older text must not be the last to write it. Whoever
        # makes the file later knows all pods of this moment.
        with self._writing_hosts:
            if file.exists():
                write_hosts(file, hosts_text(pod, self._workplace.pods()))

    @staticmethod
    def _scratch(container: Path) -> Path:
        return container / "namespaces"


def _service_variables(server: str) -> dict[str, str]:
    parts = urlsplit(server)
    port = str(parts.port or (443 if parts.scheme == "https" else 80))
    host = {"KUBERNETES_SERVICE_HOST": parts.hostname or ""}
    return host | {"KUBERNETES_SERVICE_PORT": port, "KUBERNETES_SERVICE_PORT_HTTPS": port}
