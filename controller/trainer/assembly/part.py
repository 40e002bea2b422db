# SPDX-License-Identifier: Apache-2.0
"""What a part of the manager is: what turns it on, what it declares on the manager, which rights it needs."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, cast

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.objects import Key, uid_of
from trainwright.api.rights import Rule, merged
from trainwright.api.trainer.v1alpha1 import TrainerStatus, TrainJob
from trainwright.api.trainer.v1alpha1.recovery import Allowed
from trainwright.controller.runtime import Kind, Manager
from trainwright.controller.runtime.certificates.serving import ServingCertificate
from trainwright.controller.runtime.client.config import is_in_cluster
from trainwright.controller.runtime.errors import CacheError, DecodeError
from trainwright.controller.runtime.webhook.admission import AdmissionHandler
from trainwright.controller.trainer.assembly.features import (
    RECOVERY,
    RECOVERY_PLUGIN,
    Gate,
)
from trainwright.controller.trainer.assembly.settings import ManagerSettings
from trainwright.controller.trainer.build.kinds import CachedFacts
from trainwright.controller.trainer.build.runtimes import Snapshots
from trainwright.controller.trainer.job.events import JobEvents
from trainwright.controller.trainer.job.records import JobFindings, JobRecords
from trainwright.plugins.contract import Reference
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry

if TYPE_CHECKING:
    from trainwright.api.config.v1alpha1 import Recovery
    from trainwright.controller.runtime.certificates.material import CertificateMaterial
    from trainwright.controller.trainer.progress.writer import Coalescer
    from trainwright.controller.trainer.recovery.recorder import Recoveries

LOOPBACK = "127.0.0.1"
"""Where pods that are processes of this machine reach the server, whether they have host names of their own or not."""
AnswerHere: TypeAlias = Callable[[Mapping[str, AdmissionHandler]], None]
"""Takes the handlers of the webhooks, by path."""


@dataclass(frozen=True, kw_only=True)
class Assembly:
    """The manager that parts are declared on, and the objects that they share."""

    manager: Manager
    settings: ManagerSettings
    pipeline: Pipeline
    facts: CachedFacts
    snapshots: Snapshots
    events: JobEvents
    records: JobRecords
    findings: JobFindings
    serving: ServingCertificate
    leads: Callable[[], bool]
    webhook_url: str | None
    """Where the API server reaches this process outside of a cluster; None: nowhere."""
    answer_here: AnswerHere | None = None
    """Takes the handlers where the API server runs in this process, and asks them without a socket."""
    handlers: dict[str, AdmissionHandler] = field(default_factory=dict)
    """Those of webhooks that parts bring, by path; declared before the part that serves them."""
    own_certificate: "CertificateMaterial | None" = None
    """The certificate that is loaded already, of a process that makes its own; None: it is made or read later."""

    @cached_property
    def coalescer(self) -> "Coalescer":
        """Takes reports of progress and writes them; made when the first part asks for it."""
        from trainwright.controller.trainer.progress.metrics import ProgressMetrics  # noqa: PLC0415 - costs memory
        from trainwright.controller.trainer.progress.writer import Coalescer, Pace, StatusWriter  # noqa: PLC0415

        cache, limit = self.manager.cache, self.settings.status_server.limit
        rate, burst = (limit.rate, limit.burst) if limit is not None else (None, 1)
        pace = Pace(interval=self.settings.progress_interval, rate=rate, burst=burst)

        def known(key: Key) -> TrainJob | None:
            try:
                return cache.get(TrainJob, key.name, key.namespace)
            except (CacheError, DecodeError):
                return None

        metrics = ProgressMetrics(self.manager.metrics.registry)
        return Coalescer(StatusWriter(self.manager.client, known), pace, metrics, self.records)

    @cached_property
    def recoveries(self) -> "Recoveries | None":
        """What is known of the attempts of jobs that recover; None: the feature gate is off."""
        if RECOVERY not in self.settings.features:
            return None
        from trainwright.controller.trainer.recovery.recorder import Recoveries  # noqa: PLC0415 - costs memory

        allowed = Allowed.of(cast("Recovery", self.settings.plugins.settings[RECOVERY_PLUGIN]))
        return Recoveries(self.manager, self.snapshots, self.records, allowed, newest=self._newest_report)

    def _newest_report(self, job: TrainJob) -> TrainerStatus | None:
        if not self.settings.takes_progress:
            return None
        from trainwright.controller.trainer.progress.report import JobReports  # noqa: PLC0415 - costs memory

        reports = self.records.find(Key(job.namespace, job.name), uid_of(job), JobReports)
        return reports.newest if reports is not None else None

    @property
    def jobsets(self) -> Kind:
        return self.facts.kinds.kind_of(Reference(JobSet.RESOURCE, "", ""))

    def jobs(self) -> Sequence[TrainJob]:
        """The TrainJobs of the cache; none before it has them."""
        try:
            return self.manager.cache.list(TrainJob)
        except CacheError:
            return ()

    @property
    def is_reached(self) -> bool:
        """Whether the API server can call the webhooks of this process."""
        return is_in_cluster(self.manager.config) or self.webhook_url is not None or self.answer_here is not None


@dataclass(frozen=True, slots=True)
class Rights:
    on_jobs: tuple[Rule, ...]
    """In every namespace with TrainJobs, and on objects without a namespace."""
    by_namespace: Mapping[str, tuple[Rule, ...]]
    """In single namespaces, such as the manager's own, by the name of the namespace."""


class Grants:
    """What the rights of parts depend on, and those in single namespaces."""

    def __init__(self, settings: ManagerSettings, registry: Registry, namespace: str) -> None:
        self.settings, self.registry = settings, registry
        self._namespace = namespace
        self._by_namespace: dict[str, list[Rule]] = {}

    def on_own(self, *rules: Rule, namespace: str = "") -> None:
        """Grant them in one namespace; by default in that of the manager."""
        self._by_namespace.setdefault(namespace or self._namespace, []).extend(rules)

    @property
    def by_namespace(self) -> Mapping[str, tuple[Rule, ...]]:
        return {where: merged(rules) for where, rules in sorted(self._by_namespace.items())}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    name: str
    declare: Callable[[Assembly], Awaitable[None] | None]
    """Adds what the part runs to the manager."""
    rights: Callable[[Grants], Iterable[Rule]] = lambda _: ()
    """The rights in every namespace with TrainJobs; those in single namespaces are added to what it is given."""
    is_on: Callable[[ManagerSettings], bool] = lambda _: True


def gate(wanted: Gate) -> Callable[[ManagerSettings], bool]:
    """A part that a feature gate turns on."""
    return lambda settings: wanted in settings.features
