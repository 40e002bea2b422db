# SPDX-License-Identifier: Apache-2.0
"""The parts of the manager, by name, each with what turns it on.

A part is the module of this package with its name. It is loaded only where the part is on, so that features that are
off cost no memory. It has two functions, both with one argument:

- `declare(assembly)` adds what the part runs to the manager; it may be a coroutine.
- `rights(grants)` adds the rights that the part needs; a part without rights of its own has no such function.

The manager and the roles both iterate over `PARTS`, so a new capability is one module and one entry here. The roles are
made from the rights of parts and plugins alone.
"""

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias, cast

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.objects import Key, uid_of
from trainwright.api.rights import Rule, merged
from trainwright.api.trainer.v1alpha1 import TrainerStatus, TrainJob
from trainwright.api.trainer.v1alpha1.recovery import Allowed
from trainwright.controller.runtime import (
    AdmissionHandler,
    CacheError,
    Kind,
    Manager,
    ServingCertificate,
    is_in_cluster,
)
from trainwright.controller.trainer.assembly.features import (
    EXPLAIN,
    PROGRESS_PULL,
    RECOVERY,
    RECOVERY_PLUGIN,
    TRAIN_JOB_STATUS,
    Gate,
)
from trainwright.controller.trainer.assembly.settings import ManagerSettings
from trainwright.controller.trainer.build.kinds import CachedFacts
from trainwright.controller.trainer.build.runtimes import Snapshots
from trainwright.controller.trainer.job.events import JobEvents
from trainwright.controller.trainer.job.findings import JobFindings
from trainwright.controller.trainer.job.records import JobRecords
from trainwright.plugins.contract import Reference
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry

if TYPE_CHECKING:
    from trainwright.api.config.v1alpha1 import Recovery
    from trainwright.controller.runtime import CertificateMaterial
    from trainwright.controller.trainer.progress.writer import Coalescer
    from trainwright.controller.trainer.recovery.recoveries import Recoveries

Condition: TypeAlias = Callable[[ManagerSettings], bool]


def _gate(gate: Gate) -> Condition:
    return lambda settings: gate in settings.features


def _always(_: ManagerSettings) -> bool:
    return True


PARTS: Mapping[str, Condition] = {
    "trainjobs": _always,
    "finalizers": _always,
    "recovery": _gate(RECOVERY),
    "explain": _gate(EXPLAIN),
    "cleanup": lambda settings: settings.cleanup is not None,
    "states": _always,
    "admission": _always,
    "progress": _gate(TRAIN_JOB_STATUS),
    "pull": _gate(PROGRESS_PULL),
    "stall": lambda settings: settings.takes_progress,
    "history": lambda settings: settings.progress_history and settings.takes_progress,
    "process": _always,
}
"""In the order in which they are declared."""

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
    own_certificate: "CertificateMaterial | None" = None
    """The certificate that is loaded already, of a process that makes its own; None: it is made or read later."""

    @cached_property
    def coalescer(self) -> "Coalescer":
        """Takes reports of progress and writes them; made when the first part asks for it."""
        made: Coalescer = load_part("progress").make_coalescer(self)
        return made

    @cached_property
    def recoveries(self) -> "Recoveries | None":
        """What is known of the attempts of jobs that recover; None: the feature gate is off."""
        if RECOVERY not in self.settings.features:
            return None
        from trainwright.controller.trainer.recovery.recoveries import Recoveries  # noqa: PLC0415 - costs memory

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


def parts_of(settings: ManagerSettings) -> list[str]:
    return [name for name, is_on in PARTS.items() if is_on(settings)]


def load_part(name: str) -> ModuleType:
    return importlib.import_module(f"{__package__}.{name}")


async def declare_parts(assembly: Assembly) -> None:
    for name in parts_of(assembly.settings):
        declared = load_part(name).declare(assembly)
        if inspect.isawaitable(declared):
            await declared


@dataclass(frozen=True, slots=True)
class Rights:
    on_jobs: tuple[Rule, ...]
    """In every namespace with TrainJobs, and on objects without a namespace."""
    by_namespace: Mapping[str, tuple[Rule, ...]]
    """In single namespaces, such as the manager's own, by the name of the namespace."""


class Grants:
    def __init__(self, settings: ManagerSettings, registry: Registry, namespace: str) -> None:
        self.settings, self.registry = settings, registry
        self._namespace = namespace
        self._on_jobs: list[Rule] = []
        self._by_namespace: dict[str, list[Rule]] = {}

    def on_jobs(self, *rules: Rule) -> None:
        """Grant them in every namespace with TrainJobs, and on objects without a namespace."""
        self._on_jobs += rules

    def on_own(self, *rules: Rule, namespace: str = "") -> None:
        """Grant them in one namespace; by default in that of the manager."""
        self._by_namespace.setdefault(namespace or self._namespace, []).extend(rules)

    def all(self) -> Rights:
        by_namespace = {where: merged(rules) for where, rules in sorted(self._by_namespace.items())}
        return Rights(merged(self._on_jobs), by_namespace)


def rights(settings: ManagerSettings, registry: Registry, namespace: str) -> Rights:
    """The rights of a manager that runs in this namespace, with the plugins that its Configuration enables."""
    grants = Grants(settings, registry, namespace)
    for name in parts_of(settings):
        if grant := getattr(load_part(name), "rights", None):
            grant(grants)
    return grants.all()
