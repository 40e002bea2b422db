# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: INP001 - an example to copy, not a package
"""An operator fit for production: of many replicas one works, admission is checked, events tell what happened.

Inside of a cluster it needs the objects that docs/runtime/production.md lists. Outside of one, set WEBHOOK_URL to where
the API server reaches this process, such as https://192.0.2.7:9443, or leave it unset and do without admission.
"""

import os
import sys

from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.controller.runtime import (
    Admission,
    Cause,
    Done,
    EventCollector,
    EventRecorder,
    Group,
    Key,
    LeaderElector,
    Manager,
    Result,
    Verdict,
    Webhooks,
    certificates_for,
    load_config,
    mutate_path,
    run,
    validate_path,
)

NAME = "greeter"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE", "UPDATE"]}


def configuration(kind: str, path: str) -> dict[str, object]:
    """What `kubectl apply` would install; the operator fills in the CA, or registers all of it by URL."""
    webhook = {
        "name": "greeting.example.com",
        "clientConfig": {"service": {"name": NAME, "namespace": NAME, "path": path}},
        "rules": [RULE],
        "objectSelector": {"matchLabels": {"greeting": "yes"}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    api_version = "admissionregistration.k8s.io/v1"
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": NAME}, "webhooks": [webhook]}


def default(admission: Admission[ConfigMap]) -> None:
    """Fill in what is missing. What is changed here becomes the patch."""
    assert admission.new is not None
    admission.new.data = {"greeting": "Hello", **(admission.new.data or {})}


def validate(admission: Admission[ConfigMap]) -> Verdict:
    """Say everything that is wrong at once."""
    data = (admission.new.data if admission.new else None) or {}
    errors = [Cause("FieldValueInvalid", f"data.{key}", "must not be empty") for key, text in data.items() if not text]
    warnings = [] if "name" in data else ["data.name is not set, nobody is greeted"]
    return Verdict(errors=tuple(errors), warnings=tuple(warnings))


def make() -> Manager:
    """The manager of this process: elector, webhooks, recorder, controller."""
    config = load_config()
    manager = Manager(
        config,
        field_manager=NAME,
        metrics_address=os.environ.get("METRICS_ADDRESS", "127.0.0.1:8080"),
        probe_address=os.environ.get("PROBE_ADDRESS", "127.0.0.1:8081"),
        elector=LeaderElector(config, NAME),
    )
    recorder = EventRecorder(manager.client, f"example.com/{NAME}")
    manager.add(recorder, Group.SERVERS, "events")
    manager.metrics.registry.register(EventCollector(recorder.statistics))

    certificates = certificates_for(
        config, service=NAME, secret=f"{NAME}-cert", webhook_url=os.environ.get("WEBHOOK_URL", "")
    )
    if certificates is not None:
        hooks = Webhooks(
            manager.client,
            manager.metrics.registry,
            os.environ.get("WEBHOOK_ADDRESS", ":9443"),
            configurations=[
                configuration("MutatingWebhookConfiguration", mutate_path(ConfigMap)),
                configuration("ValidatingWebhookConfiguration", validate_path(ConfigMap)),
            ],
            certificates=certificates,
        )
        hooks.server.mutate(ConfigMap, default)
        hooks.server.validate(ConfigMap, validate)
        manager.add(hooks, Group.WEBHOOKS, "webhooks")
        manager.readyz.add("webhooks", hooks.unready)

    async def reconcile(key: Key) -> Result:
        greeting = manager.cache.get(ConfigMap, key.name, key.namespace)
        if greeting is not None and (name := (greeting.data or {}).get("name")):
            recorder.event(greeting, "Normal", "Greeted", f"{(greeting.data or {}).get('greeting')}, {name}!")
        return Done()

    manager.controller(NAME).for_(ConfigMap, label_selector="greeting=yes").reconcile(reconcile)
    return manager


if __name__ == "__main__":
    sys.exit(run(make))
