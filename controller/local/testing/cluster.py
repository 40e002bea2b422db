# SPDX-License-Identifier: Apache-2.0
"""Local clusters for tests of any operator, served by a thread of the test process: no Go, no kubectl, no programs.

    with LocalCluster() as cluster:
        client = ...  # any client of Kubernetes, with cluster.kubeconfig

A new one costs hundredths of a second, so each test can have its own and needs no cleaning up. Those that share a
`ClusterHome` read definitions once. The pytest fixture `local_cluster` does all that.
"""

import asyncio
import concurrent.futures
import functools
import shutil
import tempfile
import threading
from collections.abc import AsyncIterator, Coroutine, Hashable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from trainwright.controller.local.cluster import RunningServer, Snapshot, api_server, local_cluster
from trainwright.controller.local.credentials import write_private
from trainwright.controller.local.node.settings import NodeSettings
from trainwright.controller.runtime.testing.component import answers
from trainwright.controller.runtime.testing.programs import Authority
from trainwright.controller.runtime.testing.stored import Poster, StoredObjects, install_definitions, manifests
from trainwright.controller.runtime.testing.tools import ControlPlaneError
from trainwright.controller.runtime.testing.users import PolicyRule, Users

Result = TypeVar("Result")

_FIELD_MANAGER = "local-cluster"
_NODE = "local"


class ClusterHome:
    """A thread with an event loop, and the keys, for any number of clusters one after the other or at once.

    Making keys is half of the first start. Close it.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="trainwright-local-"))
        self.authority = Authority(self.folder / "authority")
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="local clusters", daemon=True)
        self._thread.start()
        self._snapshots: dict[tuple[Hashable, ...], Snapshot] = {}
        self._pki = self.folder / "pki"
        self._pki.mkdir(mode=0o700)
        write_private(self._pki / "ca.crt", self.authority.pem)
        write_private(self._pki / "ca.key", self.authority.key_pem)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def call(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        return self.start(coroutine).result()

    def start(self, coroutine: Coroutine[Any, Any, Result]) -> "concurrent.futures.Future[Result]":
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def new_folder(self) -> Path:
        """A state folder with the keys that there are so far."""
        folder = Path(tempfile.mkdtemp(prefix="cluster-", dir=self.folder))
        shutil.copytree(self._pki, folder / "pki")
        return folder

    def keep(self, folder: Path) -> None:
        """Keep the keys that a cluster has made for those that follow."""
        for key in (folder / "pki").iterdir():
            if not (self._pki / key.name).exists():
                shutil.copy(key, self._pki / key.name)

    def snapshot(self, crds: Sequence[Path], *, rbac: bool) -> Snapshot:
        """What a new cluster with these definitions holds; made by the first call.

        Raises:
            ControlPlaneError: a definition cannot be read, or was refused.
        """
        files = tuple((file, file.stat().st_mtime_ns) for path in crds for file in manifests(path))
        key = (files, rbac)
        if key not in self._snapshots:
            with LocalCluster(rbac=rbac, home=self, snapshots=False) as running:
                running.install_crds(*crds)
                self._snapshots[key] = self.call(running.snapshot())
        return self._snapshots[key]

    def close(self) -> None:
        """End the thread and delete the folder; all clusters have to be stopped before."""
        if self.loop.is_closed():
            return
        self.call(self.loop.shutdown_default_executor())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True)
class _Running:
    api: RunningServer
    home: ClusterHome
    folder: Path
    stored: StoredObjects
    users: Users
    stop: asyncio.Event
    done: "concurrent.futures.Future[None]"
    owned: ExitStack


class LocalCluster:
    """One cluster in memory; a context manager.

    Args:
        crds: files and folders of CustomResourceDefinitions to install.
        rbac: authorize by roles and bindings. Else all users with credentials may do everything.
        controllers: also run the controllers of the local cluster and its node, on which pods are processes. Else it
            is an API server alone, as with envtest: nothing acts on what is stored.
        home: shared by several clusters; by default the cluster has its own.
        snapshots: begin with what another cluster of the home held once its definitions were installed.
    """

    def __init__(
        self,
        *,
        crds: Sequence[Path] = (),
        rbac: bool = False,
        controllers: bool = False,
        home: ClusterHome | None = None,
        snapshots: bool = True,
    ) -> None:
        self._crds = tuple(crds)
        self._rbac = rbac
        self._controllers = controllers
        self._home = home
        self._snapshots = snapshots and home is not None
        self._state: _Running | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start it; returns when it answers.

        Raises:
            ControlPlaneError: it runs already, or a definition was refused.
        """
        if self._state is not None:
            raise ControlPlaneError("the local cluster is already running")
        with ExitStack() as stack:
            home = self._home or stack.enter_context(ClusterHome())
            snapshot = home.snapshot(self._crds, rbac=self._rbac) if self._snapshots else None
            folder = home.new_folder()
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            ready: concurrent.futures.Future[tuple[RunningServer, asyncio.Event]] = concurrent.futures.Future()
            done = home.start(self._run(folder, snapshot, ready))
            first: list[concurrent.futures.Future[Any]] = [ready, done]
            concurrent.futures.wait(first, return_when=concurrent.futures.FIRST_COMPLETED)
            if not ready.done():
                done.result()
            api, stop = ready.result()
            home.keep(folder)
            url, token = api.config.server, str(api.config.token)
            stored, users = (
                StoredObjects(Poster(url, home.authority.pem, token)),
                Users(folder, url, home.authority, token),
            )
            self._state = _Running(api, home, folder, stored, users, stop, done, stack.pop_all())
        if not self._snapshots:
            try:
                self.install_crds(*self._crds)
            except BaseException:
                self.stop()
                raise

    def stop(self) -> None:
        """Stop it. Can be called again. Raises what ended it early."""
        if self._state is None:
            return
        state, self._state = self._state, None
        with state.owned:
            state.home.loop.call_soon_threadsafe(state.stop.set)
            state.done.result()

    async def _run(
        self,
        folder: Path,
        snapshot: Snapshot | None,
        ready: "concurrent.futures.Future[tuple[RunningServer, asyncio.Event]]",
    ) -> None:
        stop = asyncio.Event()
        async with self._served(folder, snapshot) as api:
            ready.set_result((api, stop))
            await stop.wait()

    @asynccontextmanager
    async def _served(self, folder: Path, snapshot: Snapshot | None) -> AsyncIterator[RunningServer]:
        if not self._controllers:
            async with api_server(folder, memory=True, rbac=self._rbac, snapshot=snapshot) as api:
                yield api
            return
        settings = NodeSettings(name=_NODE, folder=folder)
        async with local_cluster(settings, memory=True, rbac=self._rbac, for_others=True, snapshot=snapshot) as cluster:
            yield cluster.api

    async def snapshot(self) -> Snapshot:
        """What it holds now; to be awaited on the loop of its home."""
        return self._running.api.snapshot()

    @property
    def _running(self) -> _Running:
        if self._state is None:
            raise ControlPlaneError("the local cluster is not running: call start, or use it in a `with` block")
        return self._state

    def route_service(self, service: str, address: str) -> None:
        """Reach a Service, which need not exist, at an address when webhooks name it in `clientConfig.service`.

        Args:
            service: `NAMESPACE/NAME`.
            address: `HOST:PORT`, where an operator under test serves its webhooks. Without `caBundle`, which tools such
                as cert-manager would fill in, its certificate is not verified.
        """
        namespace, _, name = service.partition("/")
        self._running.api.webhooks.services.route(namespace, name, address)

    @property
    def url(self) -> str:
        return self._running.api.config.server

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of the administrator, who has a token and all rights."""
        return self._running.api.kubeconfig

    @property
    def folder(self) -> Path:
        """Folder of all files; `stop` deletes it."""
        return self._running.folder

    @property
    def ca(self) -> bytes:
        """PEM of the authority that signed the API server's certificate."""
        return self._running.home.authority.pem

    @property
    def token(self) -> str:
        return str(self._running.api.config.token)

    @property
    def stored(self) -> StoredObjects:
        return self._running.stored

    @property
    def users(self) -> Users:
        """Namespaces, users and service accounts, and their rights, which count with `rbac`."""
        return self._running.users

    def create_namespace(self, prefix: str = "test", *, labels: Mapping[str, str] | None = None) -> str:
        return self.users.create_namespace(prefix, labels=labels)

    def add_user(
        self, name: str, *, groups: Sequence[str] = (), rules: Sequence[PolicyRule] = (), namespace: str = ""
    ) -> Path:
        return self.users.add_user(name, groups=groups, rules=rules, namespace=namespace)

    def apply(self, *documents: Mapping[str, Any]) -> None:
        """Server-side apply documents as the administrator.

        Raises:
            ControlPlaneError: the API server refused a document; with its message.
        """
        self.stored.apply(*documents, field_manager=_FIELD_MANAGER)

    def install_crds(self, *paths: Path) -> None:
        """Apply the CustomResourceDefinitions in the files and folders, and wait until they are served.

        Raises:
            ControlPlaneError: a path does not exist, a folder holds no manifests, or the API server refused a
                definition; with its message.
        """
        serves = functools.partial(answers, authority=self.ca, token=self.token)
        install_definitions(
            paths, stored=self.stored, field_manager=_FIELD_MANAGER, serves=lambda path: serves(self.url + path)
        )
