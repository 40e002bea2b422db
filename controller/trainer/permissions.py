# SPDX-License-Identifier: Apache-2.0
"""The rights that a manager needs in a cluster: what its parts and its plugins declare, as far as they are in use.

Roles are made from this and from nothing else, so a part that is turned off costs no right.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from trainwright.controller.runtime.certificates.vault import Vault
from trainwright.controller.runtime.leaderelection.lock import LeaseLock
from trainwright.controller.runtime.manager.access import Access
from trainwright.controller.runtime.rights import Rule, merged
from trainwright.controller.runtime.webhook.webhooks import Webhooks
from trainwright.controller.trainer import finalizers
from trainwright.controller.trainer.controller import TrainJobController
from trainwright.controller.trainer.settings import Settings
from trainwright.controller.trainer.snapshot import Snapshots
from trainwright.controller.trainer.webhooks import webhook_configurations
from trainwright.plugins.registry import Registry


@dataclass(frozen=True, slots=True)
class Rights:
    """What a manager needs."""

    on_jobs: tuple[Rule, ...]
    """Wherever there are TrainJobs, and on objects that live in no namespace."""
    by_namespace: Mapping[str, tuple[Rule, ...]]
    """In one namespace each, such as the manager's own."""


def rights(settings: Settings, registry: Registry, namespace: str) -> Rights:
    """The rights of a manager in a cluster.

    Args:
        settings: of its Configuration.
        registry: with the plugins that the Configuration enables.
        namespace: where the manager runs.
    """
    on_jobs = [*TrainJobController.RULES, *Snapshots.RULES, *finalizers.RULES, *registry.rules()]
    on_jobs += Webhooks.rules(webhook_configurations(), managed=settings.own_certificates)
    if settings.metrics_address is not None and settings.metrics_access:
        on_jobs += Access.RULES
    own: dict[str, list[Rule]] = {}
    if settings.own_certificates:
        own.setdefault(namespace, []).extend(Vault.rules(settings.secret))
    election = settings.election
    if election is not None:
        own.setdefault(election.namespace or namespace, []).extend(LeaseLock.rules(election.name))
    return Rights(merged(on_jobs), {where: merged(rules) for where, rules in sorted(own.items())})
