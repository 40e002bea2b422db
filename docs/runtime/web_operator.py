# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: INP001 - an example to copy, not a package
"""A complete operator: a ConfigMap labelled `web=yes` becomes a Deployment of nginx and a Service in front of it."""

import sys

from trainwright.api.kubernetes.apps.v1 import Deployment
from trainwright.api.kubernetes.core.v1 import ConfigMap, Service
from trainwright.controller.runtime import Done, Key, Manager, Result, Terminal, load_config, run


class Web:
    """Creates and updates the Deployment and the Service of a ConfigMap."""

    def __init__(self, manager: Manager) -> None:
        self.manager = manager
        builder = manager.controller("web").for_(ConfigMap, label_selector="web=yes")
        builder.owns(Deployment).owns(Service).reconcile(self.reconcile, workers=4)

    async def reconcile(self, key: Key) -> Result:
        """Reconcile one ConfigMap; called after every change of it or of its children."""
        web = self.manager.cache.get(ConfigMap, key)
        if web is None:
            return Done()  # its children have an owner reference and are deleted with it
        replicas = (web.data or {}).get("replicas", "1")
        if not replicas.isdigit():
            raise Terminal(f"data.replicas is {replicas!r}: write a whole number")
        labels = {"app": key.name}
        meta = {"name": key.name, "namespace": key.namespace}
        container = {"name": "web", "image": "nginx", "ports": [{"containerPort": 80}]}
        deployment = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": meta,
            "spec": {
                "replicas": int(replicas),
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        }
        spec = {"selector": labels, "ports": [{"port": 80}]}
        service = {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}
        await self.manager.applier.apply([deployment, service], owner=web)
        return Done()


def make() -> Manager:
    """The manager of this process, with one controller."""
    manager = Manager(load_config(), field_manager="web-operator", user_agent="web")
    Web(manager)
    return manager


if __name__ == "__main__":
    sys.exit(run(make))
