# SPDX-License-Identifier: Apache-2.0
"""The doctor on a real API server: webhooks of a removed installation, rights that are missing."""

from typing import Any

import pytest

from trainwright.controller.cli.doctor import shipped_definitions
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.trainer.why.site.examination import examine, gather
from trainwright.controller.trainer.why.site.survey import PROBLEM
from trainwright.plugins.contract.picture import Severity
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry, Selection

LEFT_OVER: dict[str, Any] = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "validator.trainer.left-over.example"},
    "webhooks": [
        {
            "name": "v.trainer.left-over.example",
            "clientConfig": {"service": {"namespace": "gone", "name": "gone"}},
            "rules": [
                {
                    "apiGroups": ["trainer.kubeflow.org"],
                    "apiVersions": ["*"],
                    "operations": ["CREATE"],
                    "resources": ["trainjobs"],
                }
            ],
            # It would refuse the jobs of other tests.
            "namespaceSelector": {"matchLabels": {"no-such-namespace": "true"}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
    ],
}


async def findings(kubeconfig: str, namespace: str) -> dict[str, list[tuple[Severity | None, str]]]:
    client = Client(HTTPTransport(load_config(kubeconfig)))
    try:
        pipeline = Pipeline(Registry.load(Selection.of(None)))
        site = await gather(client, pipeline, lambda _: (), shipped_definitions(), namespace)
    finally:
        await client.close()
    found: dict[str, list[tuple[Severity | None, str]]] = {}
    for one in examine(site):
        unread = [(None, one.unread)] if one.unread else []
        found[one.title] = [*((finding.severity, finding.message) for finding in one.findings), *unread]
    return found


@pytest.mark.real_control_plane("webhooks behind Services")
async def test_a_webhook_that_leads_nowhere_and_a_manager_that_is_missing(
    with_jobsets: ControlPlane, namespace: str
) -> None:
    with_jobsets.stored.create(LEFT_OVER)
    try:
        found = await findings(str(with_jobsets.kubeconfig), namespace)
    finally:
        with_jobsets.stored.delete("validatingwebhookconfiguration", LEFT_OVER["metadata"]["name"])
    ((severity, message),) = found["webhooks lead somewhere"]
    assert severity is PROBLEM
    assert "validator.trainer.left-over.example leads to Service gone/gone, which does not exist" in message
    assert found["definitions"] == []
    assert found["JobSet is installed"] == []
    assert found["clock"] == []


async def test_a_user_without_rights_is_told_what_could_not_be_checked(
    with_jobsets: ControlPlane, namespace: str
) -> None:
    found = await findings(str(with_jobsets.add_user(f"nobody-{namespace}")), namespace)
    ((severity, message),) = found["webhooks lead somewhere"]
    assert severity is None
    assert "cannot list resource" in message
    assert found["JobSet is installed"] == [] or found["JobSet is installed"][0][0] is None
    assert all(severity is None for one in found.values() for severity, _ in one)
