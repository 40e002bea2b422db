# SPDX-License-Identifier: Apache-2.0
"""The rights that a manager needs in a cluster: those that its parts and its enabled plugins declare.

The roles are made from these rights alone. A part that is turned off adds none.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from trainwright.api.rights import Rule, merged
from trainwright.controller.trainer.assembly.parts import load_part, parts_of
from trainwright.controller.trainer.assembly.settings import ManagerSettings
from trainwright.plugins.registry import Registry


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
