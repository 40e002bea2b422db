# SPDX-License-Identifier: Apache-2.0
"""Which jobs a change of the CA certificates wakes, and when."""

import asyncio
from types import SimpleNamespace
from typing import Any

from tests import builders
from tests.builders import condition
from trainwright.api.kubernetes.core.v1 import ConfigMap, Secret
from trainwright.api.kubernetes.meta.v1 import ObjectMeta
from trainwright.api.objects import Key
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Client, MetadataOnly
from trainwright.controller.runtime.cache.cache import Cache
from trainwright.controller.runtime.cache.store import Event, EventType
from trainwright.controller.trainer.build.kinds import SPREAD_SECONDS, UnfinishedJobs, WatchedKinds
from trainwright.controller.trainer.build.runtimes import Runtimes
from trainwright.plugins.contract import Enqueue, Reference, Watch
from trainwright.plugins.testing import train_job

SECRET = Reference(Secret.RESOURCE, "ops", "cert")


class Queue:
    """Notes what is added."""

    def __init__(self) -> None:
        self.added: dict[Key, float] = {}

    def add(self, key: Key, *, priority: int, after: float, reason: str) -> None:
        assert priority < 0
        assert reason == "Secret modified"
        self.added[key] = after


class Watched:
    """An informer of one Secret."""

    resource, scope = Secret.RESOURCE, "namespace ops"

    def add_handler(self, handler: Any) -> None:
        self.changed = handler

    async def wait_synced(self) -> None: ...


def woken(jobs: list[TrainJob]) -> dict[Key, float]:
    informer: Any = Watched()
    cache: Any = SimpleNamespace(list=lambda _: jobs)
    queue: Any = Queue()
    source = UnfinishedJobs(informer, cache)
    secret = Secret(metadata=ObjectMeta(name="cert", namespace="ops"))
    change: Event[Any] = Event(EventType.MODIFIED, Key("ops", "cert"), secret, secret)
    informer.changed(change)
    assert queue.added == {}, "at the start every job is due anyway"
    asyncio.run(source.start(queue))
    informer.changed(change)
    found: dict[Key, float] = queue.added
    return found


def test_unfinished_jobs_follow_each_other() -> None:
    running = [train_job(metadata={"name": name}) for name in ("c", "a")]
    suspended = train_job(metadata={"name": "b"}, suspend=True)
    found = woken(
        [
            *running,
            suspended,
            *(builders.train_job(f"over-{kind}", conditions=[condition(kind)]) for kind in ("Complete", "Failed")),
        ]
    )
    assert found == {Key("team", "a"): 0.0, Key("team", "b"): 0.05, Key("team", "c"): 0.1}


def test_all_jobs_of_a_large_cluster_are_due_within_a_minute() -> None:
    found = woken([train_job(metadata={"name": f"job-{number:05}"}) for number in range(10_000)])
    assert len(found) == 10_000
    assert SPREAD_SECONDS - 1 < max(found.values()) < SPREAD_SECONDS


def test_one_secret_is_cached_beside_the_metadata_of_all() -> None:
    all_secrets = Watch(Secret.RESOURCE, metadata_only=True)
    one = Watch(Secret.RESOURCE, Enqueue.UNFINISHED, model=Secret, name="cert", namespace="ops")
    kinds = WatchedKinds([all_secrets, one])
    transport: Any = SimpleNamespace()
    client: Any = Client(transport)
    cache = Cache(client, namespace="team")
    sources: list[Any] = []
    builder: Any = SimpleNamespace(owns=lambda kind, **_: cache.informer(kind), source=sources.append)
    kinds.declare(builder, cache, Runtimes(cache))
    scopes = {(informer.kind, str(informer.scope)) for informer in cache.declared(Secret.RESOURCE)}
    assert scopes == {
        (MetadataOnly(Secret.RESOURCE), "namespace team"),
        (Secret, "namespace ops, metadata.name=cert"),
    }
    assert kinds.kind_of(SECRET) is Secret
    assert kinds.kind_of(SECRET._replace(namespace="team")) == MetadataOnly(Secret.RESOURCE)
    assert kinds.watches(SECRET)
    assert not WatchedKinds([one]).watches(SECRET._replace(name="other"))
    assert kinds.watches(Reference(ConfigMap.RESOURCE, "team", "any"))
    assert [source.name for source in sources] == ["secrets (namespace ops, metadata.name=cert)"]
