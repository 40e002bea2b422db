# SPDX-License-Identifier: Apache-2.0
"""The rights that a manager needs in a cluster: those that its parts and its enabled plugins declare.

The roles are made from these rights alone. A part that is turned off adds none.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from trainwright.api.rights import Rule, merged
from trainwright.controller.trainer.assembly.parts import OWN_NAMESPACE, parts_of
from trainwright.controller.trainer.assembly.settings import Settings
from trainwright.plugins.registry import Registry


@dataclass(frozen=True, slots=True)
class Rights:
    """The rights of a manager."""

    on_jobs: tuple[Rule, ...]
    """In every namespace with TrainJobs, and on objects without a namespace."""
    by_namespace: Mapping[str, tuple[Rule, ...]]
    """In single namespaces, such as the manager's own, by the name of the namespace."""


def rights(settings: Settings, registry: Registry, namespace: str) -> Rights:
    """The rights of a manager in a cluster.

    Args:
        settings: of its Configuration.
        registry: with the plugins that the Configuration enables.
        namespace: where the manager runs.
    """
    on_jobs: list[Rule] = []
    own: dict[str, list[Rule]] = {}
    for part in parts_of(settings):
        on_jobs += part.rights(settings, registry)
        for where, rules in part.own_rights(settings).items():
            own.setdefault(namespace if where == OWN_NAMESPACE else where, []).extend(rules)
    return Rights(merged(on_jobs), {where: merged(rules) for where, rules in sorted(own.items())})
