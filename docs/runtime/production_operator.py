# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: INP001 - an example to copy, not a package
"""A production operator: leader election between replicas, admission webhooks, events.

`USES.rules()` are its rights in the namespaces of its objects. Election and webhooks need those of
`LeaseLock.rules`, `CertificateVault.rules` and `Webhooks.rules`. Outside a cluster, set WEBHOOK_URL to the URL under
which the API server reaches this process, such as https://192.0.2.7:9443. Without it there are no webhooks.
"""

import os
import sys

from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.controller.runtime import (
    AdmissionRequest,
    AdmissionResponse,
    Done,
    ErrorCause,
    Key,
    LeaderElector,
    Manager,
    Result,
    ServerSettings,
    certificates_for,
    load_config,
    run,
)
from trainwright.controller.runtime.controller.uses import Uses
from trainwright.controller.runtime.webhook.admission import mutate_path, validate_path

NAME = "greeter"
USES = Uses(kind=ConfigMap, events=True)
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE", "UPDATE"]}


def configuration(kind: str, path: str) -> dict[str, object]:
    """The configuration to install. The operator sets its CA bundle, or registers it by URL."""
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


def default(request: AdmissionRequest[ConfigMap]) -> None:
    """Set defaults. The changes become the patch."""
    assert request.new is not None
    request.new.data = {"greeting": "Hello", **(request.new.data or {})}


def validate(request: AdmissionRequest[ConfigMap]) -> AdmissionResponse:
    """Return all errors at once."""
    data = (request.new.data if request.new else None) or {}
    errors = [
        ErrorCause("FieldValueInvalid", f"data.{key}", "must not be empty") for key, text in data.items() if not text
    ]
    warnings = [] if "name" in data else ["data.name is not set: there is no one to greet"]
    return AdmissionResponse(errors=tuple(errors), warnings=tuple(warnings))


def make() -> Manager:
    """The manager of this process: elector, webhooks, controller."""
    config = load_config()
    manager = Manager(
        config,
        field_manager=NAME,
        user_agent=f"example.com/{NAME}",
        servers=ServerSettings(
            metrics=os.environ.get("METRICS_ADDRESS", "127.0.0.1:8080"),
            probes=os.environ.get("PROBE_ADDRESS", "127.0.0.1:8081"),
        ),
        elector=LeaderElector(config, NAME),
    )
    certificates = certificates_for(
        config, service=NAME, secret=f"{NAME}-cert", webhook_url=os.environ.get("WEBHOOK_URL", "")
    )
    if certificates is not None:
        configurations = [
            configuration("MutatingWebhookConfiguration", mutate_path(ConfigMap)),
            configuration("ValidatingWebhookConfiguration", validate_path(ConfigMap)),
        ]
        hooks = manager.webhooks(configurations, certificates, address=os.environ.get("WEBHOOK_ADDRESS", ":9443"))
        hooks.server.mutate(ConfigMap, default)
        hooks.server.validate(ConfigMap, validate)

    async def reconcile(key: Key) -> Result:
        greeting = manager.cache.get(ConfigMap, key)
        if greeting is not None and (name := (greeting.data or {}).get("name")):
            manager.recorder.event(greeting, "Normal", "Greeted", f"{(greeting.data or {}).get('greeting')}, {name}!")
        return Done()

    manager.controller(NAME, USES).for_(ConfigMap, label_selector="greeting=yes").reconcile(reconcile)
    return manager


if __name__ == "__main__":
    sys.exit(run(make))
