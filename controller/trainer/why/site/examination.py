# SPDX-License-Identifier: Apache-2.0
"""Runs all checks over a Site."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from trainwright.controller.trainer.why.site import (
    capacity,
    definitions,
    jobset,
    kubernetes,
    leader,
    runtimes,
    webhooks,
)
from trainwright.controller.trainer.why.site.findings import Finding, Level
from trainwright.controller.trainer.why.site.site import CannotTell, Site

Check = Callable[[Site], Iterable[Finding]]

CHECKS: dict[str, Check] = {
    "Kubernetes": kubernetes.version,
    "JobSet is installed": jobset.presence,
    "JobSet answers": jobset.answer,
    "definitions": definitions.definitions,
    "webhooks answer": webhooks.answer,
    "webhooks lead somewhere": webhooks.targets,
    "certificates of webhooks": webhooks.certificates,
    "a manager works": leader.leads,
    "one manager": leader.one_manager,
    "rights of the manager": leader.rights,
    "runtimes can be used": runtimes.usable,
    "classes of runtimes exist": runtimes.named,
    "gang schedulers": runtimes.gangs,
    "logs of failed pods": runtimes.evidence,
    "JobSets stay": runtimes.lifetimes,
    "devices": capacity.devices,
    "Kueue": capacity.queues,
    "quotas": capacity.quotas,
    "finished jobs": capacity.leftovers,
    "clock": leader.clock,
}
"""The checks by title, in the order in which they are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """One check and what it found."""

    title: str
    findings: tuple[Finding, ...]

    @property
    def is_sound(self) -> bool:
        """Whether it found nothing, and could be made."""
        return not self.findings


def examine(site: Site) -> list[Examined]:
    """Every check, with its findings; what cannot be checked is a finding of its own."""
    return [Examined(title=title, findings=tuple(_run(title, check, site))) for title, check in CHECKS.items()]


def _run(title: str, check: Check, site: Site) -> Iterable[Finding]:
    try:
        for finding in check(site):
            yield replace(finding, check=title)
    except CannotTell as unread:
        remedy = "ask for the right to read it, or let a cluster admin run this command"
        yield Finding(level=Level.UNKNOWN, message=f"not checked: {unread}", remedy=remedy, check=title)
