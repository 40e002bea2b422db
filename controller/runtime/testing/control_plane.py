# SPDX-License-Identifier: Apache-2.0
"""A real Kubernetes control plane for tests: etcd and kube-apiserver, and if wanted controllers, JobSet and KWOK.

Behaviour towards Kubernetes is tested against real programs, because no emulation knows server-side apply, validation
and watches well enough. A control plane takes about four seconds to start. Several can run side by side: each has its
own folder, ports, authority and users. Nothing listens outside the loopback interface.

It has no nodes that run containers (KWOK only simulates them) and no cluster network: Services lead nowhere, so
webhooks are registered by URL.
"""

import functools
import os
import secrets
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeAlias

from trainwright.controller.runtime.testing import programs
from trainwright.controller.runtime.testing.audit import AuditLog
from trainwright.controller.runtime.testing.build import Binaries, provide
from trainwright.controller.runtime.testing.component import Components, ControlPlaneComponent, answers, has_condition
from trainwright.controller.runtime.testing.ports import free_port, is_free
from trainwright.controller.runtime.testing.stored import Poster, StoredObjects, install_definitions
from trainwright.controller.runtime.testing.tools import ControlPlaneError, PortTakenError
from trainwright.controller.runtime.testing.users import PolicyRule, Users, write_kubeconfig

_PORT_ATTEMPTS = 3
_FIELD_MANAGER = "control-plane"


_HTTPSCommand: TypeAlias = Callable[[Binaries, programs.Files, int], list[str]]
"""Takes the port to listen on."""


@dataclass(frozen=True)
class _Running:
    url: str
    token: str
    files: programs.Files
    binaries: Binaries
    components: Components
    audit_log: Path
    stored: StoredObjects


class ControlPlane:
    """One control plane; a context manager.

    Guarantees: every started program ends and its folder is deleted when the `with` block is left, when the start
    fails, and when this process dies in any way. Methods that fail raise ControlPlaneError with what is wrong: it does
    not run, a name is not known, or what the API server or a program said last.

    Example:
        with ControlPlane(jobset=True, kwok_nodes=1) as control_plane:
            control_plane.kubectl("apply", "-f", "job.yaml")
    """

    def __init__(
        self,
        *,
        controller_manager: bool = False,
        scheduler: bool = False,
        jobset: bool = False,
        kwok_nodes: int = 0,
        crds: Sequence[Path] = (),
        audit: bool = False,
        port: int | None = None,
        assets: Path | None = None,
    ) -> None:
        """Configure the control plane; `start` starts it.

        Args:
            controller_manager: run kube-controller-manager (Jobs create pods, garbage collection, ...).
            scheduler: run kube-scheduler.
            jobset: run the JobSet manager, with its CRD and its webhooks.
            kwok_nodes: run KWOK with so many simulated nodes. Pods on them become ready; those of Jobs complete.
            crds: files and folders of CustomResourceDefinitions to install and wait for.
            audit: write an audit log (`audit_log`).
            port: port of the API server; default: a free one.
            assets: folder of existing binaries; see `build.provide`.
        """
        self._wanted = {
            "etcd": True,
            "kube-apiserver": True,
            "kubectl": True,
            "kube-controller-manager": controller_manager,
            "kube-scheduler": scheduler,
            "jobset-manager": jobset,
            "kwok": kwok_nodes > 0,
        }
        self._kwok_nodes = kwok_nodes
        self._crds = tuple(crds)
        self._audit = audit
        self._port = port
        self._assets = assets
        self._state: _Running | None = None

    @classmethod
    def complete(
        cls, *, crds: Sequence[Path] = (), audit: bool = False, port: int | None = None, assets: Path | None = None
    ) -> Self:
        """The whole chain: controllers, scheduler, JobSet and one simulated node, so that jobs run to their end."""
        return cls(
            controller_manager=True,
            scheduler=True,
            jobset=True,
            kwok_nodes=1,
            crds=crds,
            audit=audit,
            port=port,
            assets=assets,
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def _running(self) -> _Running:
        if self._state is None:
            raise ControlPlaneError("the control plane is not running: call start, or use it in a `with` block")
        return self._state

    @property
    def url(self) -> str:
        return self._running.url

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of the administrator, who has a token and all rights."""
        return self._running.files.kubeconfig

    @property
    def folder(self) -> Path:
        """Folder of all files; `stop` deletes it."""
        return self._running.files.folder

    @property
    def ca(self) -> bytes:
        """PEM of the authority that signed the API server's certificate."""
        return self._running.files.authority.pem

    @property
    def token(self) -> str:
        return self._running.token

    @property
    def kubectl_path(self) -> Path:
        """kubectl of the same version as the control plane."""
        return self._running.binaries["kubectl"]

    @property
    def components(self) -> Mapping[str, ControlPlaneComponent]:
        """The running programs by name, in the order of their start."""
        return self._running.components.by_name

    @property
    def audit_log(self) -> AuditLog:
        """The calls to the API server; needs `audit`."""
        if not self._audit:
            raise ControlPlaneError("there is no audit log: start the control plane with audit=True")
        return AuditLog(self._running.audit_log)

    def provide(self) -> Binaries:
        """Find the programs; build missing ones, which takes minutes. `start` calls it."""
        return provide([name for name, wanted in self._wanted.items() if wanted], assets=self._assets)

    def start(self) -> None:
        """Start everything and return when it is ready.

        Raises:
            ControlPlaneError: a program is missing or cannot be built, a port is taken, or a program does not become
                ready (with its last log lines). Nothing keeps running then.
        """
        if self._state is not None:
            raise ControlPlaneError("the control plane is already running")
        binaries = self.provide()
        if self._port is not None and not is_free(self._port):
            raise ControlPlaneError(
                f"port {self._port} on 127.0.0.1 is in use: stop the program that listens there, or choose another port"
            )
        try:
            folder = Path(tempfile.mkdtemp(prefix="trainwright-control-plane-", dir=self._parent_folder()))
        except OSError as error:
            raise ControlPlaneError(f"cannot create a folder for the control plane: {error}") from error
        components = self._components(folder)
        try:
            self._state = self._start_api(folder, binaries, components)
            self._start_rest(self._state)
        except BaseException as error:
            self._state = None
            components.stop()
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, OSError):
                raise ControlPlaneError(f"cannot start the control plane in {folder}: {error}") from error
            raise

    def stop(self) -> None:
        """Stop every program, the last started one first, and delete the folder. Can be called again."""
        if self._state is not None:
            state, self._state = self._state, None
            state.components.stop()
            shutil.rmtree(state.files.folder, ignore_errors=True)

    def launch(
        self, name: str, command: Sequence[str], *, ready: Callable[[], bool] | None = None
    ) -> ControlPlaneComponent:
        """Run another program, such as the manager under test.

        It ends with the control plane. Its log is in `folder`, and `restart` works for it.

        Args:
            name: unique name, for messages and the log.
            command: program and arguments.
            ready: polled until it is true.

        Raises:
            ControlPlaneError: the name is in use; or the program ended or was not ready in time, with its last log
                lines, and is stopped.
        """
        components = self._running.components
        components.launch(name, command, ready or (lambda: True))
        try:
            components.wait(name)
        except BaseException:
            components.stop_one(name, kill=False)
            raise
        return components.by_name[name]

    def stop_program(self, name: str, *, kill: bool = False) -> None:
        """Stop (with `kill`: crash) one program; `launch` can start it again."""
        self._running.components.stop_one(name, kill=kill)

    def restart(self, name: str, *, kill: bool = False) -> None:
        """Stop one program (with `kill`: crash it) and start it again as it was; returns when it is ready."""
        self._running.components.restart(name, kill=kill)

    def _parent_folder(self) -> Path | None:
        """Where the folder of the control plane is made; None: among temporary files."""
        return None

    def _components(self, folder: Path) -> Components:
        """What runs the programs; a control plane of another kind may run them elsewhere."""
        return Components(folder)

    def _start_api(self, folder: Path, binaries: Binaries, components: Components) -> _Running:
        token = secrets.token_urlsafe(24)
        files = programs.Files.make(folder, token)
        audit_log = folder / "audit.log"
        url = ""
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            url = self._launch_api(files, binaries, components, token, audit_log if self._audit else None)
            try:
                components.wait()
            except PortTakenError:
                # Another program took a port between the check and the start. Start both again with new ports, because
                # the API server knows the port of etcd.
                if attempt == _PORT_ATTEMPTS:
                    raise
                components.stop()
            else:
                break
        credential = {"token": token}
        write_kubeconfig(
            files.kubeconfig, server=url, authority=files.authority.pem, user=programs.ADMIN, credential=credential
        )
        stored = StoredObjects(Poster(url, files.authority.pem, token))
        return _Running(url, token, files, binaries, components, audit_log, stored)

    def _launch_api(
        self, files: programs.Files, binaries: Binaries, components: Components, token: str, audit_log: Path | None
    ) -> str:
        """Start etcd and the API server at the same time: the API server waits for etcd. Returns its URL."""
        port, etcd_port, peer_port = self._port or free_port(), free_port(), free_port()
        url = f"https://127.0.0.1:{port}"
        components.launch(
            "etcd",
            programs.etcd(binaries, files, port=etcd_port, peer_port=peer_port),
            functools.partial(answers, f"http://127.0.0.1:{etcd_port}/health"),
            ports=(etcd_port, peer_port),
        )
        components.launch(
            "kube-apiserver",
            programs.kube_apiserver(binaries, files, port=port, etcd_port=etcd_port, audit_log=audit_log),
            functools.partial(answers, f"{url}/readyz", authority=files.authority.pem, token=token),
            ports=(port,),
        )
        return url

    def _start_rest(self, state: _Running) -> None:
        # Each picks free ports of its own, so that a program that lost its port can be started again alone.
        starters: dict[str, Callable[[_Running], None]] = {
            "kube-controller-manager": functools.partial(
                self._launch_https, "kube-controller-manager", programs.kube_controller_manager
            ),
            "kube-scheduler": functools.partial(self._launch_https, "kube-scheduler", programs.kube_scheduler),
            "jobset-manager": self._launch_jobset,
            "kwok": self._launch_kwok,
        }
        wanted = [name for name in starters if self._wanted[name]]
        # Programs that need no CRDs start while the CRDs are installed.
        early = [name for name in wanted if name.startswith("kube-")]
        for name in early:
            starters[name](state)
        jobset = [state.binaries.manifests["jobset-crd.yaml"]] if "jobset-manager" in wanted else []
        if crds := [*self._crds, *jobset]:
            self.install_crds(*crds)
        for name in wanted:
            if name not in early:
                starters[name](state)
        attempts = Counter(wanted)
        while True:
            try:
                state.components.wait()
            except PortTakenError as error:
                if not 0 < attempts[error.program] < _PORT_ATTEMPTS:
                    raise
                attempts[error.program] += 1
                state.components.stop_one(error.program, kill=False)
                starters[error.program](state)
            else:
                return

    def _launch_https(self, name: str, command: _HTTPSCommand, state: _Running) -> None:
        port = free_port()
        url = f"https://127.0.0.1:{port}/healthz"
        ready = functools.partial(answers, url, authority=state.files.authority.pem)
        state.components.launch(name, command(state.binaries, state.files, port), ready, ports=(port,))

    def _launch_jobset(self, state: _Running) -> None:
        webhook_port, health_port = free_port(), free_port()
        self.apply(*programs.jobset_webhooks(state.binaries, state.files, webhook_port=webhook_port))
        ports = (webhook_port, health_port)
        command = programs.jobset_manager(state.binaries, state.files, *ports)
        state.components.launch("jobset-manager", command, self._jobsets_are_admitted, ports=ports)

    def _launch_kwok(self, state: _Running) -> None:
        state.components.launch("kwok", programs.kwok(state.binaries, state.files.kubeconfig), self._nodes_are_ready)
        self.apply(*programs.pretend_nodes(self._kwok_nodes))

    def _jobsets_are_admitted(self) -> bool:
        # Its own /readyz says so before the webhooks are served, which then answer 404 for a moment.
        try:
            self.stored.create(programs.PROBE, dry_run=True)
        except ControlPlaneError:
            return False
        return True

    def _nodes_are_ready(self) -> bool:
        try:
            nodes = self.stored.list("nodes")
        except ControlPlaneError:
            return False  # the API server may be restarting
        # Tests can add nodes.
        return sum(has_condition(node, "Ready") for node in nodes) >= self._kwok_nodes

    def kubectl(self, *arguments: str, stdin: str | None = None, kubeconfig: Path | None = None) -> str:
        """Run kubectl, as the administrator unless another kubeconfig is given; returns its standard output."""
        state = self._running
        command = [
            str(self.kubectl_path),
            f"--kubeconfig={kubeconfig or state.files.kubeconfig}",
            f"--cache-dir={state.files.folder / 'kubectl'}",
            *arguments,
        ]
        # Settings of the user (a kuberc, KUBE variables) must not affect this kubectl.
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("KUBE")}
        environment = inherited | {"KUBERC": "off"}
        done = subprocess.run(command, input=stdin, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ControlPlaneError(f"kubectl {' '.join(arguments)} failed: {done.stderr.strip()}")
        return done.stdout

    def apply(self, *documents: Mapping[str, Any]) -> None:
        """Server-side apply documents as the administrator."""
        self.stored.apply(*documents, field_manager=_FIELD_MANAGER)

    def install_crds(self, *paths: Path) -> None:
        """Apply the CustomResourceDefinitions in the files and folders, and wait until they are served."""
        state = self._running
        serves = functools.partial(answers, authority=state.files.authority.pem, token=state.token)
        install_definitions(
            paths, stored=state.stored, field_manager=_FIELD_MANAGER, serves=lambda path: serves(state.url + path)
        )

    @property
    def stored(self) -> StoredObjects:
        """The objects, to read and to create without a kubectl."""
        return self._running.stored

    @property
    def users(self) -> Users:
        """Namespaces, users and service accounts, and their rights."""
        state = self._running
        return Users(state.files.folder, state.url, state.files.authority, state.token)

    def create_namespace(self, prefix: str = "test", *, labels: Mapping[str, str] | None = None) -> str:
        """See `Users.create_namespace`."""
        return self.users.create_namespace(prefix, labels=labels)

    def add_user(
        self, name: str, *, groups: Sequence[str] = (), rules: Sequence[PolicyRule] = (), namespace: str = ""
    ) -> Path:
        return self.users.add_user(name, groups=groups, rules=rules, namespace=namespace)
