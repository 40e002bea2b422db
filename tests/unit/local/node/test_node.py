# SPDX-License-Identifier: Apache-2.0
"""The node between its events: what pods that come and go at odd moments leave behind."""

import asyncio
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.local.node.pods import Document, container, pod
from trainwright.api.objects import Key, key_of
from trainwright.controller.local.node import machine, ports
from trainwright.controller.local.node.node import POD, LocalNode
from trainwright.controller.local.node.ports import free_port
from trainwright.controller.local.node.settings import NodeSettings
from trainwright.controller.runtime.cache.store import Event, EventType


class Cluster:
    """A manager with a cache of pods, which tells the node of changes."""

    client = cache = property(lambda self: self)

    def __init__(self) -> None:
        self.pods: dict[Key, Document] = {}
        self.reconcile_with: Callable[[Key], Any]
        self._handlers: list[tuple[Any, Callable[[Event[Any]], None]]] = []

    def controller(self, *_: Any) -> "Cluster":
        return self

    def watches(self, *_: Any, **__: Any) -> "Cluster":
        return self

    source = watches

    def reconcile(self, function: Callable[[Key], Any], **_: Any) -> None:
        self.reconcile_with = function

    def informer(self, kind: Any) -> Any:
        return SimpleNamespace(add_handler=lambda handler: self._handlers.append((kind, handler)))

    def add(self, *_: Any) -> None:
        """Nothing runs it."""

    def get(self, _: Any, name: str, namespace: str) -> Document | None:
        return self.pods.get(Key(namespace, name))

    def show(self, one: Document) -> None:
        self.pods[key_of(one)] = one

    def remove(self, one: Document) -> None:
        """As a watch does: the cache first, then the handlers."""
        del self.pods[key_of(one)]
        for kind, handler in self._handlers:
            if kind is POD:
                handler(Event(EventType.DELETED, key_of(one), one, None))


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def node(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalNode]:
    """Declared and not run; what it holds goes with the test."""
    locks = machine.MachineLocks()
    monkeypatch.setattr(machine, "PREFIX", secrets.token_hex(8))
    monkeypatch.setattr(ports, "MachineLocks", lambda: locks)
    made = LocalNode(cluster, NodeSettings(name="n", folder=tmp_path / "state"), server="https://127.0.0.1:6443")
    made.declare(cluster)
    yield made
    locks.close()


@pytest.fixture
def listening() -> Callable[..., Document]:
    """Makes pods that declare one and the same port."""
    port = {"containerPort": free_port()}
    return lambda name, **spec: pod(container(ports=[port]), name=name, **spec)


@pytest.mark.parametrize("spec", [{}, {"nodeName": "n"}, {"nodeName": "other"}])
def test_ports_of_a_pod_that_never_gets_a_worker_go_with_its_object(
    cluster: Cluster, node: LocalNode, listening: Callable[..., Document], spec: Document
) -> None:
    first, second = listening("first"), listening("second")
    cluster.show(first)
    cluster.show(second)
    assert node.admit(first, [])
    assert not node.admit(second, [])
    # Perhaps bound in between.
    cluster.remove({**first, "spec": {**first["spec"], **spec}})
    assert node.admit(second, [])


def test_a_pod_that_is_gone_holds_no_ports(
    cluster: Cluster, node: LocalNode, listening: Callable[..., Document]
) -> None:
    gone, replaced, waits = listening("gone"), listening("replaced"), listening("waits")
    cluster.show({**replaced, "metadata": {**replaced["metadata"], "uid": "another"}})
    cluster.show(waits)
    # Whether they fit says their binding.
    assert node.admit(gone, [])
    assert node.admit(replaced, [])
    assert node.admit(waits, [])


def test_the_ports_of_a_pod_with_a_worker_stay_with_it(
    cluster: Cluster, node: LocalNode, listening: Callable[..., Document]
) -> None:
    first, second = listening("first"), listening("second")
    cluster.show(first)
    cluster.show(second)
    assert node.admit(first, [])
    node._workers["uid-first"] = SimpleNamespace(pod=first)  # type: ignore[assignment]
    cluster.remove(first)
    assert not node.admit(second, [])


def test_pods_are_listed_while_others_come(node: LocalNode) -> None:
    """In threads, in which the event loop goes on between any two steps."""

    class Changing:
        @property
        def pod(self) -> Document:
            node._workers["new"] = self  # type: ignore[assignment]
            return pod()

    node._workers["old"] = Changing()  # type: ignore[assignment]
    assert node.pods() == [pod()]


async def test_no_pod_begins_after_the_stop(cluster: Cluster, node: LocalNode, monkeypatch: pytest.MonkeyPatch) -> None:
    old = SimpleNamespace(pod=pod(nodeName="n"), uid="old", done=asyncio.Event(), end=lambda **_: None)
    new = pod(nodeName="n")
    cluster.show(new)
    node._workers["old"] = old  # type: ignore[assignment]
    begun: list[Document] = []
    monkeypatch.setattr(node, "_begin", begun.append)
    node._running.set()
    reconciling = asyncio.ensure_future(cluster.reconcile_with(key_of(new)))
    # It waits for the end of the pod that had the name before.
    await asyncio.wait({reconciling}, timeout=0.01)
    assert not reconciling.done()
    node.request_stop()
    old.done.set()
    await asyncio.gather(reconciling, return_exceptions=True)
    assert begun == []
