# SPDX-License-Identifier: Apache-2.0
"""The rights that a manager needs in a cluster: what its parts and its plugins declare, as far as they are in use.

Roles are made from this and from nothing else, so a part that is turned off costs no right.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from trainwright.api.config.v1alpha1 import Configuration
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime.certificates.vault import Vault
from trainwright.controller.runtime.leaderelection.lock import LeaseLock
from trainwright.controller.runtime.manager.access import Access
from trainwright.controller.runtime.rights import Rule, merged
from trainwright.controller.runtime.webhook.webhooks import Webhooks
from trainwright.controller.trainer import finalizers
from trainwright.controller.trainer.controller import TrainJobController
from trainwright.controller.trainer.snapshot import Snapshots
from trainwright.controller.trainer.webhooks import webhook_configurations
from trainwright.plugins.registry import Registry

LEASE = TrainJob.RESOURCE.group
"""Name of the Lease where the Configuration gives none: the original's, so that the two never work at once."""


@dataclass(frozen=True, slots=True)
class Rights:
    """What a manager needs."""

    on_jobs: tuple[Rule, ...]
    """Wherever there are TrainJobs, and on objects that live in no namespace."""
    by_namespace: Mapping[str, tuple[Rule, ...]]
    """In one namespace each, such as the manager's own."""


def rights(configuration: Configuration, registry: Registry, namespace: str) -> Rights:
    """The rights of a manager in a cluster.

    Args:
        configuration: of the manager, with its defaults set.
        registry: with the plugins that the configuration enables.
        namespace: where the manager runs.
    """
    on_jobs = [*TrainJobController.RULES, *Snapshots.RULES, *finalizers.RULES, *registry.rules()]
    certificates = configuration.cert_management
    assert certificates is not None, "defaults are set"
    managed = certificates.enable is not False
    on_jobs += Webhooks.rules(webhook_configurations(), managed=managed)
    metrics = configuration.metrics
    if metrics is not None and metrics.bind_address != "0" and metrics.auth is not None and metrics.auth.enabled:
        on_jobs += Access.RULES
    own: dict[str, list[Rule]] = {}
    if managed:
        assert certificates.webhook_secret_name is not None, "defaults are set"
        own.setdefault(namespace, []).extend(Vault.rules(certificates.webhook_secret_name))
    election = configuration.leader_election
    if election is not None and election.leader_elect:
        where = election.resource_namespace or namespace
        own.setdefault(where, []).extend(LeaseLock.rules(election.resource_name or LEASE))
    return Rights(merged(on_jobs), {where: merged(rules) for where, rules in sorted(own.items())})
