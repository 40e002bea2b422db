# SPDX-License-Identifier: Apache-2.0
"""A real Kubernetes control plane for tests: etcd and kube-apiserver, and on request the rest of the chain.

Behaviour towards Kubernetes is proved against the real thing; no emulation knows server-side apply, validation or watch
semantics well enough to be believed. One takes about four seconds to start and several run side by side: each has its
own folder, ports, authority and users. Nothing listens outside of the loopback.

What cannot be had: nodes that run containers (KWOK's only pretend to), and the network of a cluster (no Service leads
anywhere, so webhooks are registered by URL).
"""

import functools
import http
import http.client
import json
import secrets
import shutil
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from trainwright.controller.runtime.testing import programs
from trainwright.controller.runtime.testing.audit import AuditLog
from trainwright.controller.runtime.testing.binaries import Binaries, provide
from trainwright.controller.runtime.testing.component import Component, Components, free_port, is_free
from trainwright.controller.runtime.testing.errors import ControlPlaneError
from trainwright.controller.runtime.testing.kubeconfig import write_kubeconfig

_PORT_ATTEMPTS = 3
_WAIT_SECONDS = 60
_POLL_SECONDS = 0.05
_FIELD_MANAGER = "control-plane"


@dataclass(frozen=True)
class _Running:
    url: str
    token: str
    files: programs.Files
    binaries: Binaries
    components: Components
    audit_log: Path


class ControlPlane:
    """Starts, knows and stops one control plane; a context manager.

    Guarantees: when the `with` block is left, when starting fails half way, and when this process dies in whatever way,
    every program that was started ends and its folder is deleted.

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
        """Describe the control plane; nothing happens before `start`.

        Args:
            controller_manager: run kube-controller-manager (Jobs make pods, garbage is collected, ...).
            scheduler: run kube-scheduler.
            jobset: run the JobSet manager, with its CRD and its webhooks.
            kwok_nodes: run KWOK with so many pretend nodes, on which pods become ready and those of Jobs complete.
            crds: files and folders of CustomResourceDefinitions to install and wait for.
            audit: write an audit log (`audit_log`).
            port: port of the API server; a free one when not given.
            assets: folder of ready-made binaries; see `binaries.provide`.
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
        """The whole chain: controllers, scheduler, JobSet and one pretend node, so that jobs run to their end."""
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def _running(self) -> _Running:
        if self._state is None:
            raise ControlPlaneError("the control plane is not running: call start, or use it in a `with` block")
        return self._state

    @property
    def url(self) -> str:
        """URL of the API server."""
        return self._running.url

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of the administrator, who has a token and may do everything."""
        return self._running.files.kubeconfig

    @property
    def folder(self) -> Path:
        """Folder of everything; deleted by `stop`."""
        return self._running.files.folder

    @property
    def ca(self) -> bytes:
        """PEM of the authority that signed the API server's certificate."""
        return self._running.files.authority.pem

    @property
    def token(self) -> str:
        """The administrator's bearer token."""
        return self._running.token

    @property
    def kubectl_path(self) -> Path:
        """The kubectl of the control plane's own version."""
        return self._running.binaries["kubectl"]

    @property
    def components(self) -> Mapping[str, Component]:
        """The programs that run, by name, in the order of their start."""
        return self._running.components.by_name

    @property
    def audit_log(self) -> AuditLog:
        """Who called what.

        Raises:
            ControlPlaneError: started without `audit`.
        """
        if not self._audit:
            raise ControlPlaneError("there is no audit log: start the control plane with audit=True")
        return AuditLog(self._running.audit_log)

    def start(self) -> None:
        """Start everything and return when it is ready.

        Raises:
            ControlPlaneError: a program is missing or cannot be built, a port is taken, or a program does not become
                ready (with its last log lines). Nothing is left running then.
        """
        if self._state is not None:
            raise ControlPlaneError("the control plane runs already")
        binaries = provide([name for name, wanted in self._wanted.items() if wanted], assets=self._assets)
        if self._port is not None and not is_free(self._port):
            raise ControlPlaneError(
                f"port {self._port} on 127.0.0.1 is taken: stop the program that listens there, or choose another port"
            )
        try:
            folder = Path(tempfile.mkdtemp(prefix="trainwright-control-plane-"))
        except OSError as error:
            raise ControlPlaneError(f"cannot make a folder for the control plane: {error}") from error
        components = Components(folder)
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
        """Stop every program, last started first, and delete the folder. May be called again."""
        if self._state is not None:
            state, self._state = self._state, None
            state.components.stop()
            shutil.rmtree(state.files.folder, ignore_errors=True)

    def launch(self, name: str, command: Sequence[str], *, ready: Callable[[], bool] | None = None) -> Component:
        """Run a program of the test's own beside the others, such as the manager under test.

        It ends with the control plane, its log lies in `folder`, and `restart` knows it.

        Args:
            name: for messages and the log; unique.
            command: program and arguments.
            ready: asked again and again until true before this returns.

        Raises:
            ControlPlaneError: it ended or was not ready in time; with its last log lines.
        """
        components = self._running.components
        components.launch(name, command, ready or (lambda: True))
        components.wait(name)
        return components.by_name[name]

    def stop_program(self, name: str, *, kill: bool = False) -> None:
        """Stop (with `kill`: crash) one program and leave it stopped; `launch` may start it anew."""
        self._running.components.stop_one(name, kill=kill)

    def restart(self, name: str, *, kill: bool = False) -> None:
        """Stop one program (with `kill`: crash it) and start it again as it was; returns when it is ready.

        Raises:
            ControlPlaneError: it does not become ready again.
        """
        self._running.components.restart(name, kill=kill)

    def _start_api(self, folder: Path, binaries: Binaries, components: Components) -> _Running:
        token = secrets.token_urlsafe(24)
        files = programs.Files.make(folder, token)
        audit_log = folder / "audit.log"
        url = ""
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            url = self._launch_api(files, binaries, components, token, audit_log if self._audit else None)
            try:
                components.wait()
            except ControlPlaneError as error:
                # Another program took a port between our look and our start: look again.
                if "address already in use" not in str(error) or attempt == _PORT_ATTEMPTS:
                    raise
                components.stop()
            else:
                break
        credential = {"token": token}
        write_kubeconfig(
            files.kubeconfig, server=url, authority=files.authority.pem, user=programs.ADMIN, credential=credential
        )
        return _Running(url, token, files, binaries, components, audit_log)

    def _launch_api(
        self, files: programs.Files, binaries: Binaries, components: Components, token: str, audit_log: Path | None
    ) -> str:
        """Start etcd and the API server, both at once: the API server tries until etcd answers. Returns its URL."""
        port, etcd_port = self._port or free_port(), free_port()
        url = f"https://127.0.0.1:{port}"
        components.launch(
            "etcd",
            programs.etcd(binaries, files, port=etcd_port, peer_port=free_port()),
            functools.partial(_answers, f"http://127.0.0.1:{etcd_port}/health"),
        )
        components.launch(
            "kube-apiserver",
            programs.kube_apiserver(binaries, files, port=port, etcd_port=etcd_port, audit_log=audit_log),
            functools.partial(_answers, f"{url}/readyz", authority=files.authority.pem, token=token),
        )
        return url

    def _start_rest(self, state: _Running) -> None:
        files, binaries, components = state.files, state.binaries, state.components
        if self._wanted["kube-controller-manager"]:
            port = free_port()
            command = programs.kube_controller_manager(binaries, files, port=port)
            components.launch(
                "kube-controller-manager", command, functools.partial(_answers, f"https://127.0.0.1:{port}/healthz")
            )
        if self._wanted["kube-scheduler"]:
            port = free_port()
            command = programs.kube_scheduler(binaries, files, port=port)
            components.launch(
                "kube-scheduler", command, functools.partial(_answers, f"https://127.0.0.1:{port}/healthz")
            )
        crds = [*self._crds, *([binaries.manifests["jobset-crd.yaml"]] if self._wanted["jobset-manager"] else [])]
        if crds:
            self.install_crds(*crds)
        if self._wanted["jobset-manager"]:
            webhook_port, health_port = free_port(), free_port()
            self.apply(*programs.jobset_webhooks(binaries, files, webhook_port=webhook_port))
            command = programs.jobset_manager(binaries, files, webhook_port=webhook_port, health_port=health_port)
            components.launch(
                "jobset-manager", command, functools.partial(_answers, f"http://127.0.0.1:{health_port}/readyz")
            )
        if self._wanted["kwok"]:
            components.launch("kwok", programs.kwok(binaries, files), self._nodes_are_ready)
            self.apply(*programs.pretend_nodes(self._kwok_nodes))
        components.wait()

    def _nodes_are_ready(self) -> bool:
        nodes = json.loads(self.kubectl("get", "nodes", "--output=json"))["items"]
        return sum(_has_condition(node, "Ready") for node in nodes) == self._kwok_nodes

    def kubectl(self, *arguments: str, stdin: str | None = None, kubeconfig: Path | None = None) -> str:
        """Run kubectl, as the administrator unless another kubeconfig is given; returns its standard output.

        Raises:
            ControlPlaneError: kubectl failed; with what it printed.
        """
        state = self._running
        command = [
            str(state.binaries["kubectl"]),
            f"--kubeconfig={kubeconfig or state.files.kubeconfig}",
            f"--cache-dir={state.files.folder / 'kubectl'}",
            *arguments,
        ]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ControlPlaneError(f"kubectl {' '.join(arguments)} failed: {done.stderr.strip()}")
        return done.stdout

    def apply(self, *documents: Mapping[str, Any]) -> None:
        """Server-side apply documents as the administrator, all in one go.

        Raises:
            ControlPlaneError: the API server refused one; with its words.
        """
        self.kubectl(
            "apply",
            "--server-side",
            f"--field-manager={_FIELD_MANAGER}",
            "--filename=-",
            # JSON: YAML libraries disagree about which plain words are booleans.
            stdin="\n---\n".join(json.dumps(document) for document in documents),
        )

    def install_crds(self, *paths: Path) -> None:
        """Apply the CustomResourceDefinitions in the files and folders, and wait until they are served.

        Raises:
            ControlPlaneError: a path does not exist, or the API server refused a definition; with its words.
        """
        files = [f"--filename={file}" for path in paths for file in _manifests(path)]
        self.kubectl("apply", "--server-side", f"--field-manager={_FIELD_MANAGER}", *files)
        # Not `kubectl wait`, which fails on a definition that has no conditions yet; and a definition that is
        # Established may still be answered 429 for a moment, while its storage is made.
        deadline = time.monotonic() + _WAIT_SECONDS
        while waiting := self._not_served(files):
            if time.monotonic() > deadline:
                raise ControlPlaneError(f"not served after {_WAIT_SECONDS} s: {', '.join(waiting)}")
            time.sleep(_POLL_SECONDS)

    def _not_served(self, files: Sequence[str]) -> list[str]:
        answer = json.loads(self.kubectl("get", "--output=json", *files))
        crds = answer["items"] if answer["kind"] == "List" else [answer]
        return [crd["metadata"]["name"] for crd in crds if not self._serves(crd)]

    def _serves(self, crd: Mapping[str, Any]) -> bool:
        if not _has_condition(crd, "Established"):
            return False
        group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
        state = self._running
        return all(
            _answers(
                f"{state.url}/apis/{group}/{version['name']}/{plural}?limit=1",
                authority=state.files.authority.pem,
                token=state.token,
            )
            for version in crd["spec"]["versions"]
            if version["served"]
        )

    def create_namespace(self, prefix: str = "test") -> str:
        """Make a namespace of its own, so that tests do not meet; returns its name."""
        name = f"{prefix}-{secrets.token_hex(4)}"
        self.kubectl("create", "namespace", name)
        return name

    def add_user(self, name: str, *, groups: Sequence[str] = ()) -> Path:
        """Make a user with a client certificate and no rights beyond its groups'; returns its kubeconfig."""
        state = self._running
        certificate, key = state.files.authority.client(name, groups)
        return write_kubeconfig(
            state.files.folder / f"{name}.kubeconfig",
            server=state.url,
            authority=state.files.authority.pem,
            user=name,
            credential={"client-certificate": str(certificate), "client-key": str(key)},
        )


def _manifests(path: Path) -> list[Path]:
    """The file itself, or a folder's YAML files but for the kustomization, which is no object."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.glob("*.yaml") if file.name != "kustomization.yaml")


def _has_condition(document: Mapping[str, Any], kind: str) -> bool:
    conditions = document.get("status", {}).get("conditions") or []
    return any((condition["type"], condition["status"]) == (kind, "True") for condition in conditions)


def _answers(url: str, *, authority: bytes | None = None, token: str | None = None) -> bool:
    """Whether a GET is answered with success. Without an authority the certificate is not looked at."""
    if authority is not None:
        context = ssl.create_default_context(cadata=authority.decode())
    else:
        # Health ports make their own certificates; nothing secret is sent there.
        context = ssl._create_unverified_context()  # noqa: S323, SLF001
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})  # noqa: S310
    # Proxies of the environment have no business on the loopback.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(request, timeout=2) as answer:
            return bool(answer.status == http.HTTPStatus.OK)
    except (urllib.error.URLError, http.client.HTTPException, OSError):
        return False
