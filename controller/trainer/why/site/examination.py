# SPDX-License-Identifier: Apache-2.0
"""Runs all checks over the survey of an installation."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from trainwright.controller.trainer.why.site import capacity, jobset, leader, runtimes, versions, webhooks
from trainwright.controller.trainer.why.site.survey import CannotTell, Level, SiteFinding, SiteSurvey

Check = Callable[[SiteSurvey], Iterable[SiteFinding]]

CHECKS: dict[str, Check] = {
    "Kubernetes": versions.kubernetes,
    "JobSet is installed": jobset.presence,
    "JobSet answers": jobset.answer,
    "definitions": versions.definitions,
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
    title: str
    findings: tuple[SiteFinding, ...]

    @property
    def is_sound(self) -> bool:
        """Whether it found nothing, and could be made."""
        return not self.findings


def examine(site: SiteSurvey) -> list[Examined]:
    """Every check, with its findings; what cannot be checked is a finding of its own."""
    return [Examined(title=title, findings=tuple(_run(check, site))) for title, check in CHECKS.items()]


def _run(check: Check, site: SiteSurvey) -> Iterator[SiteFinding]:
    try:
        yield from check(site)
    except CannotTell as unread:
        remedy = "ask for the right to read it, or let a cluster admin run this command"
        yield SiteFinding(Level.UNKNOWN, f"not checked: {unread}", remedy)
