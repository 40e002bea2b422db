# SPDX-License-Identifier: Apache-2.0
"""The node as a part of a manager.

A controller sees the pods that are bound to the node, gives each a worker, and writes the status that follows from the
worker's state. So retries, back-off and coalescing of writes are those of any controller.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence

from trainwright.api.kubernetes.core.v1 import ConfigMap, Pod, Secret
from trainwright.api.objects import (
    AnyObject,
    Document,
    Key,
    annotations_of,
    key_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)
from trainwright.api.times import Now, wall_clock
from trainwright.controller.local.node import folders, machine
from trainwright.controller.local.node.container import ContainerRunner
from trainwright.controller.local.node.document import HOST_IP, ClusterSources, is_deleted, is_finished
from trainwright.controller.local.node.folders import EndedLogs, log_folder, note_end, remove_pod
from trainwright.controller.local.node.hosting import Hosting
from trainwright.controller.local.node.logs import read_log, run_to_show
from trainwright.controller.local.node.machine import Meter
from trainwright.controller.local.node.pod import PodWorker
from trainwright.controller.local.node.ports import group_of
from trainwright.controller.local.node.registration import NodeRegistration
from trainwright.controller.local.node.sessions import ProcessSession
from trainwright.controller.local.node.settings import Isolation, NodeSettings
from trainwright.controller.local.node.status import PhaseVerdict, annotations_to_report, differs, status_document
from trainwright.controller.local.podaccess import ContainerUse, ExecRequest, LogRequest, Streams, UnavailableError
from trainwright.controller.runtime import (
    Client,
    Conflict,
    Event,
    KubernetesError,
    Manager,
    MetadataOnly,
    NotFound,
    Trigger,
)
from trainwright.controller.runtime.cache.cache import Cache
from trainwright.controller.runtime.cache.store import EventType
from trainwright.controller.runtime.controller.sources import own_key
from trainwright.controller.runtime.events.recorder import EventRecorder
from trainwright.controller.runtime.manager.supervisor import Group
from trainwright.controller.runtime.tasks import TaskScope, together

log = logging.getLogger(__name__)

POD = Pod.RESOURCE
WORKERS = 8
STOP_SECONDS = 3600.0
"""Longest grace of a pod when the node stops; a shorter one of its own counts."""
STOPPED = PhaseVerdict(
    "Failed",
    "Terminated",
    "Pod was terminated in response to imminent node shutdown.",
    # By this a `podFailurePolicy` tells it from a failure.
    disruption="TerminationByKubelet",
)


class LocalNode:
    """One node. A runnable of the manager that it is declared on."""

    def __init__(
        self,
        client: Client,
        settings: NodeSettings,
        *,
        server: str,
        now: Now = wall_clock,
    ) -> None:
        """`server`: URL of the API server, which pods find in their variables."""
        self.settings = settings
        self._client = client
        self._now = now
        self._trigger = Trigger("node")
        self._meter = Meter()
        self._recorder = EventRecorder(client, "kubelet", instance=settings.name, now=now)
        self._workers: dict[str, PodWorker] = {}
        """By uid: a pod may be deleted and made again under its name while the first one still ends."""
        self._owners: dict[str, asyncio.Task[None]] = {}
        """By uid of the pod: looks whom its logs are kept for."""
        self._tasks: TaskScope | None = None
        self._running = asyncio.Event()
        self._stopping = asyncio.Event()
        self._stop_grace = STOP_SECONDS
        self._lost: frozenset[str] = frozenset()
        self._cache: Cache | None = None
        self.sources = ClusterSources(client, allocatable=lambda: self.resources()[1], now=now)
        self._hosting = Hosting(
            settings,
            self.sources,
            server=server,
            pods=self.pods,
            event=self._event,
            released=self._room_made,
        )
        self.ended = EndedLogs(client, settings.logs, self._exists)
        """Of pods that are gone."""
        self.registration = NodeRegistration(client, settings.name, self.resources, now)

    def declare(self, manager: Manager) -> None:
        """Add the node to a manager that has not been started."""
        self._cache = manager.cache
        builder = manager.controller("node").watches(POD, own_key, predicates=(self._is_ours,))
        builder.source(self._trigger).reconcile(self._reconcile, workers=WORKERS, needs_leader=False)
        manager.cache.informer(POD).add_handler(self._pod_changed)
        for kind in (ConfigMap, Secret):
            manager.cache.informer(MetadataOnly(kind)).add_handler(self._source_changed)
        manager.add(self, Group.OTHERS, "node")

    # ------------------------------------------------------------------ looking in

    @property
    def isolation(self) -> Isolation:
        """NAMESPACES or REWRITE, once the node runs."""
        return self._hosting.isolation

    def resources(self) -> tuple[dict[str, str], dict[str, str]]:
        count = self._hosting.gpus.count
        devices = {machine.RESOURCE: str(count)} if count else {}
        return machine.node_resources(machine.machine_capacity(), devices, self.settings.capacity)

    def admit(self, pod: Document, others: Iterable[Document]) -> bool:
        """Hold the ports of a pod that a scheduler is about to bind; False if they are not to be had.

        The end of the pod gives them back; or its deletion, if it never gets here. `others` are the pods of the node.
        """
        assert self._cache is not None
        known = self._cache.get(POD, name_of(pod), namespace_of(pod))
        # A pod that is gone will not be bound, and no event of its deletion would give its ports back.
        return known is None or uid_of(known) != uid_of(pod) or self._hosting.ports.admit(pod, others)

    def pods(self) -> Sequence[Document]:
        """All pods of the node, as the workers know them."""
        # Called in threads, too: `list` copies in one step, and a worker replaces its pod, which nobody changes.
        return [worker.pod for worker in list(self._workers.values())]

    async def logs(self, namespace: str, pod: str, request: LogRequest) -> AsyncGenerator[bytes, None]:
        """The log of a container, also of a pod that is gone; a `LogSource`."""
        container = request.container
        try:
            found, worker = self._find(namespace, pod)
        except UnavailableError:
            gone = await self.gone(namespace, pod)
            if gone is None:
                raise
            found, worker = gone, None
        status = status_of(found) if worker is None else status_document(found, worker.state, self._now())
        run = request.run
        if run is None:
            run = run_to_show(pod, container, status, previous=request.previous)
        path = log_folder(self.settings.logs, found, container) / f"{run}.log"
        runner = worker.runners.get(container) if worker is not None else None

        def ended() -> bool:
            return runner is None or runner.has_ended(run)

        return read_log(path, request, ended=ended, now=self._now())

    async def exec(self, namespace: str, pod: str, request: ExecRequest) -> ProcessSession:
        return await self._runner(namespace, pod, request.container).exec(
            request.command, stdin=request.stdin, tty=request.tty
        )

    async def connect(self, namespace: str, pod: str, port: int) -> Streams:
        found, worker = self._find(namespace, pod)
        if worker is None:
            raise UnavailableError(f"pod {pod} is not running")
        real = self._hosting.ports.moved(found).get(port, port)
        return await asyncio.open_connection(HOST_IP, real)

    def _runner(self, namespace: str, pod: str, container: str) -> ContainerRunner:
        _, worker = self._find(namespace, pod)
        runner = worker.runners.get(container) if worker is not None else None
        if runner is None:
            raise UnavailableError(f'container not found ("{container}")')
        return runner

    async def gone(self, namespace: str, pod: str) -> Document | None:
        """A pod that is gone and whose logs are kept, as it was last; a `GonePods`."""
        return await asyncio.to_thread(self.ended.find, namespace, pod)

    async def usage(self) -> list[ContainerUse]:
        running = [
            (worker.pod, runner.container, f"{worker.uid}/{name}/{process.guard_pid}", process.guard_pid)
            for worker in list(self._workers.values())
            for name, runner in list(worker.runners.items())
            if (process := runner.process) is not None and not process.ended
        ]
        used = await self._meter.use({key: guard for _, _, key, guard in running})
        devices = {key: self._hosting.gpus.devices_of(pod, container) for pod, container, key, _ in running}
        known = await self._meter.gpus([device for some in devices.values() for device in some])
        found = []
        for pod, container, key, _ in running:
            if key not in used:
                continue  # it has ended meanwhile
            cpu, memory = used[key]
            of_gpus = [known[device] for device in devices[key] if device in known]
            found.append(
                ContainerUse(
                    pod=uid_of(pod),
                    container=container["name"],
                    cpu=cpu,
                    memory=memory,
                    gpu=sum(one.busy for one in of_gpus) if of_gpus else None,
                    gpu_memory=sum(one.memory for one in of_gpus) if of_gpus else None,
                )
            )
        return found

    def _exists(self, uid: str) -> bool:
        assert self._cache is not None
        return uid in self._workers or any(uid_of(pod) == uid for pod in self._cache.list(POD))

    def _find(self, namespace: str, name: str) -> tuple[Document, PodWorker | None]:
        """A pod of this node and its worker, if it has one. Raises UnavailableError."""
        assert self._cache is not None
        pod = self._cache.get(POD, name, namespace)
        if pod is None or spec_of(pod).get("nodeName") != self.settings.name:
            raise UnavailableError(f'pod "{name}" not found')
        return pod, self._workers.get(uid_of(pod))

    # ------------------------------------------------------------------ life

    async def run(self) -> None:
        """Run the pods until `request_stop`, then end them with their grace and report how they ended."""
        try:
            await self._run()
        finally:
            await asyncio.to_thread(self._hosting.close)
            self._hosting.exits.close()

    async def _run(self) -> None:
        for folder in (self.settings.folder, self.settings.pods, self.settings.logs):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lost = await asyncio.to_thread(folders.end_survivors, self.settings.pods)
        await self._hosting.open()
        # Beside the workers, not among them: events are still written while pods end.
        async with TaskScope("node") as around:
            around.start("node/events", self._recorder.run())
            around.start("node/registration", self.registration.run())
            ended = around.start("node/ended", self._look_after_logs())
            async with TaskScope("node:pods") as tasks:
                self._tasks = tasks
                self._running.set()
                tasks.start("node/leftovers", self._remove_leftovers())
                try:
                    await self._stopping.wait()
                finally:
                    await self._end_all()
                    self._tasks = None
            try:
                await self.registration.say_stopped()
            except KubernetesError as error:
                log.warning("node %s: its end was not reported: %s", self.settings.name, error)
            ended.cancel()
            self._recorder.request_stop()

    async def wait_running(self) -> None:
        await self._running.wait()

    def request_stop(self) -> None:
        """End all pods, then return from `run`."""
        self._stopping.set()

    def hurry(self) -> None:
        """From now on a stop kills the pods instead of waiting for their grace."""
        self._stop_grace = 0.0
        if self._stopping.is_set():
            for worker in self._workers.values():
                worker.end(grace=0.0, verdict=STOPPED)

    async def _remove_leftovers(self) -> None:
        """Remove the files of pods whose objects were deleted while no node ran."""
        assert self._cache is not None
        await self._cache.wait_synced([POD])
        stored = {uid_of(pod) for pod in self._cache.list(POD)}
        for uid in self._lost - stored:
            await self._remove(uid)

    async def _remove(self, uid: str, pod: Document | None = None) -> None:
        await asyncio.to_thread(remove_pod, self.settings, uid, pod)
        self.ended.notice()

    async def _look_after_logs(self) -> None:
        assert self._cache is not None
        await self._cache.wait_synced([POD])
        await self.ended.run()

    async def _end_all(self) -> None:
        workers = list(self._workers.values())
        for worker in workers:
            worker.end(grace=self._stop_grace, verdict=STOPPED)
        await together("node:ending", *(self._ended(worker) for worker in workers))

    async def _ended(self, worker: PodWorker) -> None:
        await worker.done.wait()
        try:
            await self._report(worker.pod, worker)
        except KubernetesError as error:
            # The next start finds the pod without its processes and reports it as lost.
            log.warning("pod %s: its end was not reported: %s", key_of(worker.pod), error)

    # ------------------------------------------------------------------ pods

    def _is_ours(self, event: Event[AnyObject]) -> bool:
        pod = event.obj
        return isinstance(pod, dict) and spec_of(pod).get("nodeName") == self.settings.name

    def _pod_changed(self, event: Event[AnyObject]) -> None:
        """What a pod without a worker has here goes with its object, whoever deletes that.

        Its ports, held for a binding that it did not live to see; or its files, if it is from an earlier run.
        """
        pod = event.obj
        if event.type is not EventType.DELETED or not isinstance(pod, dict) or uid_of(pod) in self._workers:
            return
        self._hosting.release(pod)
        if self._tasks is not None and self._is_ours(event):
            self._tasks.start("node/remove", self._remove(uid_of(pod), pod))

    def _source_changed(self, event: Event[AnyObject]) -> None:
        for worker in self._workers.values():
            if namespace_of(worker.pod) == event.key.namespace:
                worker.notice_source(event.key.name)

    def _room_made(self) -> None:
        for worker in self._workers.values():
            worker.notice_room()

    def _event(self, pod: Document, kind: str, reason: str, note: str) -> None:
        self._recorder.event(pod, "Warning" if kind == "Warning" else "Normal", reason, note)

    async def _reconcile(self, key: Key) -> None:
        """Bring the workers of one key in line with its pod, and report."""
        await self._running.wait()
        if self._stopping.is_set():
            return
        assert self._cache is not None
        pod = self._cache.get(POD, key.name, key.namespace)
        uid = uid_of(pod) if pod is not None else ""
        for other in [one for one in self._workers.values() if key_of(one.pod) == key and one.uid != uid]:
            await self._gone(other)
        if pod is None or spec_of(pod).get("nodeName") != self.settings.name:
            return
        # Once more, since the end of another pod was waited for: nobody would end one that begins now.
        if self._stopping.is_set():
            return
        worker = self._workers.get(uid)
        if worker is None:
            is_left = uid in self._lost
            if is_finished(pod) or (is_left and (is_deleted(pod) or await asyncio.to_thread(self._has_run, pod))):
                await self._finish(pod)
                return
            if is_left:
                # The cluster ended before a container of it ran, so nothing is lost: it begins once more.
                await self._remove(uid)
                self._lost -= {uid}
                if self._stopping.is_set():
                    return
            worker = self._begin(pod)
            await self._tell_peers(worker)
        worker.update(pod)
        await self._report(pod, worker)
        if worker.done.is_set() and is_deleted(pod):
            await self._note_end(worker)
            if await self._delete(pod):
                await self._forget(worker)

    def _has_run(self, pod: Document) -> bool:
        """Whether a container of a pod of an earlier run has run: its status says so, or its log exists. Blocks."""
        logs = log_folder(self.settings.logs, pod, "").glob("*/*.log*")
        return folders.has_started(pod) or any(True for _ in logs)

    def _begin(self, pod: Document) -> PodWorker:
        assert self._tasks is not None
        key = key_of(pod)
        worker = PodWorker(pod, self._hosting, changed=lambda: self._trigger(key, reason="container"), now=self._now)
        self._workers[worker.uid] = worker
        self._tasks.start(f"pod:{key}", worker.run())
        self._owners[worker.uid] = self._tasks.start(f"owner:{key}", self.ended.begin(pod))
        return worker

    async def _tell_peers(self, worker: PodWorker) -> None:
        """A pod has come or gone: the others of its job learn of its name."""
        if self.isolation is Isolation.NAMESPACES:
            group = group_of(worker.pod)
            for other in [one for one in self._workers.values() if one is not worker and group_of(one.pod) == group]:
                await asyncio.to_thread(other.write_hosts)

    async def _gone(self, worker: PodWorker) -> None:
        """The object is gone: nothing of the pod may stay."""
        worker.end(grace=0.0)
        await worker.done.wait()
        await self._forget(worker, self._as_it_ended(worker))

    async def _forget(self, worker: PodWorker, pod: Document | None = None) -> None:
        """Nothing of the pod runs, and its object is gone. `pod` is as it ended; None: that was noted before."""
        self._workers.pop(worker.uid, None)
        await self._tell_peers(worker)
        await self._owners.pop(worker.uid)
        await self._remove(worker.uid, pod)

    async def _note_end(self, worker: PodWorker) -> None:
        """Before the object goes: whoever sees that it is gone finds its lines, and how it ended."""
        await self._owners[worker.uid]
        try:
            await asyncio.to_thread(note_end, self.settings.logs, self._as_it_ended(worker))
        except OSError as error:
            log.warning("how pod %s ended is not kept: %s", key_of(worker.pod), error)

    def _as_it_ended(self, worker: PodWorker) -> Document:
        metadata = worker.pod["metadata"]
        annotations = {**annotations_of(worker.pod), **annotations_to_report(worker.state)}
        status = {**status_of(worker.pod), **status_document(worker.pod, worker.state, self._now())}
        return {**worker.pod, "metadata": {**metadata, "annotations": annotations}, "status": status}

    async def _finish(self, pod: Document) -> None:
        """A pod without a worker: one that has ended, or that an earlier run of the cluster left behind."""
        if not is_finished(pod):
            await self._write_status(pod, folders.lost_status(pod, self._now()), {})
        if is_deleted(pod):
            await self._delete(pod)

    async def _report(self, pod: Document, worker: PodWorker) -> None:
        document = status_document(pod, worker.state, self._now())
        annotations = annotations_to_report(worker.state)
        if differs(pod, document) or annotations.items() - annotations_of(pod).items():
            await self._write_status(pod, document, annotations)

    async def _write_status(self, pod: Document, document: Document, annotations: Mapping[str, str]) -> None:
        # In one write: whoever sees that a container has failed sees when.
        metadata = {"uid": uid_of(pod)} | ({"annotations": dict(annotations)} if annotations else {})
        patch = {"metadata": metadata, "status": document}
        try:
            await self._client.patch(
                POD, name_of(pod), namespace_of(pod), patch, type="strategic", subresource="status"
            )
        except NotFound:
            return  # its deletion comes through the watch
        except Conflict as error:
            log.info("pod %s: the status was not written, it is another pod now: %s", key_of(pod), error)

    async def _delete(self, pod: Document) -> bool:
        """Remove the object; nothing of the pod runs any more. Returns False if finalizers keep it.

        The own deletion does not come back as an event, so the caller cleans up.
        """
        try:
            left = await self._client.delete(POD, name_of(pod), namespace_of(pod), uid=uid_of(pod), grace_period=0)
        except (NotFound, Conflict):
            return True
        return left is None
