# SPDX-License-Identifier: Apache-2.0
"""Whether a process serves admission depends on where it runs and on its settings."""

from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from trainwright.controller.runtime.certificates.configurations import (
    injection_target_of,
    names_reached,
    paths_of,
    webhooks_by_url,
)
from trainwright.controller.runtime.certificates.material import certificates_in
from trainwright.controller.runtime.certificates.rotation import RotationPolicy
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.client.config import ClusterConfig
from trainwright.controller.runtime.errors import ConfigurationError
from trainwright.controller.runtime.testing.scripted import ScriptedTransport
from trainwright.controller.runtime.webhook.webhooks import (
    DEFAULT_FOLDER,
    ByURL,
    CertificateFolder,
    SharedCertificates,
    Webhooks,
    certificates_for,
)

ACCOUNT = Path("/account")
POD = ClusterConfig(server="https://10.0.0.1", namespace="system", token_file="/account/token")
LAPTOP = ClusterConfig(server="https://example.com", token="t")


def test_outside_without_a_url_there_is_nothing() -> None:
    assert certificates_for(LAPTOP, service="s", secret="c", account=ACCOUNT) is None
    assert certificates_for(LAPTOP, service="s", secret="c", account=ACCOUNT, managed=False) is None


def test_url_wins_wherever_the_process_runs() -> None:
    for config in (LAPTOP, POD):
        chosen = certificates_for(config, service="s", secret="c", webhook_url="https://me:1", account=ACCOUNT)
        assert chosen == ByURL(url="https://me:1")


def test_in_a_cluster_certificates_are_shared_or_from_files() -> None:
    shared = certificates_for(POD, service="hooks", secret="cert", account=ACCOUNT)
    assert shared == SharedCertificates(secret="cert", namespace="system", hosts=["hooks.system.svc"])
    mounted = Path("/mounted")
    files = certificates_for(POD, service="s", secret="c", managed=False, folder=mounted, account=ACCOUNT)
    assert files == CertificateFolder(path=mounted)
    default = certificates_for(POD, service="s", secret="c", managed=False, account=ACCOUNT)
    assert default == CertificateFolder(path=DEFAULT_FOLDER)


def test_the_policy_counts_wherever_the_process_makes_its_certificate() -> None:
    policy = RotationPolicy(authority_name="mine", authority_lifetime=timedelta(days=200))
    shared = certificates_for(POD, service="s", secret="c", policy=policy, account=ACCOUNT)
    assert isinstance(shared, SharedCertificates)
    assert shared.policy == policy
    own = certificates_for(LAPTOP, service="s", secret="c", webhook_url="https://me:1", policy=policy, account=ACCOUNT)
    assert isinstance(own, ByURL)
    hooks = Webhooks(
        Client(ScriptedTransport()), CollectorRegistry(), "127.0.0.1:0", configurations=[], certificates=own
    )
    (authority,) = certificates_in(hooks._make_own())
    assert authority.subject.rfc4514_string() == "CN=mine"
    assert authority.not_valid_after_utc - authority.not_valid_before_utc < timedelta(days=201)


@pytest.mark.parametrize("url", ["http://me:1", "me:1", "https://"])
def test_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="webhook URL"):
        Webhooks(
            Client(ScriptedTransport()),
            CollectorRegistry(),
            "127.0.0.1:0",
            configurations=[],
            certificates=ByURL(url=url),
        )


@pytest.mark.parametrize(
    ("address", "dialled"), [(":9443", "127.0.0.1"), ("[::]:9443", "::1"), ("192.0.2.1:9443", "192.0.2.1")]
)
def test_readiness_dials_where_the_server_listens(address: str, dialled: str) -> None:
    hooks = Webhooks(
        Client(ScriptedTransport()),
        CollectorRegistry(),
        address,
        configurations=[],
        certificates=ByURL(url="https://me:9443"),
    )
    assert hooks._dialled() == (dialled, 9443)


async def test_configuration_whose_path_nobody_answers_is_refused() -> None:
    service = {"name": "s", "namespace": "n", "path": "/validate--v1-pod"}
    document = {
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "v"},
        "webhooks": [{"name": "w", "clientConfig": {"service": service}}],
    }
    hooks = Webhooks(
        Client(ScriptedTransport()),
        CollectorRegistry(),
        "127.0.0.1:0",
        configurations=[document],
        certificates=ByURL(url="https://me:1"),
    )
    with pytest.raises(ConfigurationError, match="/validate--v1-pod"):
        await hooks.run()


def test_configuration_leads_to_the_url_and_the_original_stays() -> None:
    service = {"name": "s", "namespace": "n", "path": "/a"}
    document = {
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "m", "labels": {"app": "x"}},
        "webhooks": [{"name": "w", "clientConfig": {"service": service}, "failurePolicy": "Fail"}],
    }
    changed = webhooks_by_url(document, "https://me:9443/", b"PEM", {"mine": "true"})
    assert changed["webhooks"][0]["clientConfig"] == {"url": "https://me:9443/a", "caBundle": "UEVN"}
    assert changed["webhooks"][0]["failurePolicy"] == "Fail"
    assert changed["metadata"]["labels"] == {"app": "x", "mine": "true"}
    assert document["webhooks"] == [{"name": "w", "clientConfig": {"service": service}, "failurePolicy": "Fail"}]
    assert paths_of([document]) == paths_of([changed]) == {"/a"}


@pytest.mark.parametrize(
    ("client", "host"),
    [
        ({"service": {"name": "s", "namespace": "n"}}, "s.n.svc"),
        ({"url": "https://me:9443/a"}, "me"),
        ({"url": "https://me/a"}, "me"),
        ({"url": "https://[::1]:9443/a"}, "::1"),
        ({"url": "https://[::1]/a"}, "::1"),
    ],
)
def test_host_that_the_api_server_expects(client: dict[str, object], host: str) -> None:
    webhooks = {"kind": "ValidatingWebhookConfiguration", "webhooks": [{"name": "w", "clientConfig": client}]}
    assert names_reached(webhooks) == [("w", host)]
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": client}}
    definition = {"kind": "CustomResourceDefinition", "spec": {"conversion": conversion}}
    assert names_reached(definition) == [("conversion", host)]


@pytest.mark.parametrize(
    "document", [{}, {"kind": "Pod", "metadata": {"name": "p"}}, {"kind": "MutatingWebhookConfiguration"}]
)
def test_other_documents_are_refused(document: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="not a webhook configuration"):
        injection_target_of(document)
