# SPDX-License-Identifier: Apache-2.0
"""Kubeconfigs and service accounts."""

import asyncio
import base64
import json
import os
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainwright.controller.runtime.client.config import ClusterConfig, in_cluster, load_config
from trainwright.controller.runtime.client.credentials import ClientCertificate, Credential, TLSFiles
from trainwright.controller.runtime.client.http import authorization_of
from trainwright.controller.runtime.errors import ConfigurationError


def kubeconfig(path: Path, *, user: dict[str, Any] | None = None, **cluster: Any) -> Path:
    document = {
        "current-context": "one",
        "clusters": [{"name": "c", "cluster": {"server": "https://api:6443/", **cluster}}],
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u", "namespace": "home"}}],
        "users": [{"name": "u", "user": user or {"token": "secret-token"}}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


def test_a_kubeconfig_is_read_whole(tmp_path: Path) -> None:
    encoded = base64.b64encode(b"PEM").decode()
    user = {"tokenFile": "sub/token", "client-certificate-data": encoded, "as": "bob", "as-groups": ["g"]}
    path = kubeconfig(
        tmp_path / "config",
        user=user,
        **{"certificate-authority": "ca.pem", "tls-server-name": "kubernetes", "proxy-url": "http://proxy:3128"},
    )
    config = load_config(path)
    assert (config.server, config.namespace) == ("https://api:6443", "home")
    assert config.ca_file == str(tmp_path / "ca.pem")
    assert config.token_file == str(tmp_path / "sub" / "token")
    assert config.client_cert_data == b"PEM"
    assert (config.tls_server_name, config.proxy_url) == ("kubernetes", "http://proxy:3128")
    assert (config.impersonate_user, config.impersonate_groups) == ("bob", ("g",))


def test_secrets_are_not_in_the_representation(tmp_path: Path) -> None:
    assert "secret-token" not in repr(load_config(kubeconfig(tmp_path / "config")))


def test_files_are_merged_and_the_first_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = kubeconfig(tmp_path / "one")
    two = tmp_path / "two"
    two.write_text(
        yaml.safe_dump(
            {
                "current-context": "two",
                "clusters": [
                    {"name": "c", "cluster": {"server": "https://wrong"}},
                    {"name": "d", "cluster": {"server": "https://d"}},
                ],
                "contexts": [{"name": "two", "context": {"cluster": "d"}}],
            }
        )
    )
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([str(one), str(two), str(tmp_path / "missing")]))
    assert load_config().server == "https://api:6443"
    assert load_config(context="two").server == "https://d"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"current-context": None}, r"current-context is not set; use one of one$"),
        ({"current-context": None, "contexts": []}, r"current-context is not set, and no context is defined$"),
        ({"current-context": "nine"}, r"context 'nine' is not defined \(defined: one\)"),
        ({"users": []}, r"user 'u' is not defined \(defined: none\)"),
        ({"clusters": [{"name": "c", "cluster": {}}]}, r"cluster 'c' has no server URL"),
        ({"users": [{"name": "u", "user": {"client-key-data": "%%"}}]}, r"client-key-data is not valid base64"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = kubeconfig(tmp_path / "config")
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **change}))
    with pytest.raises(ConfigurationError, match=message) as caught:
        load_config(path)
    assert str(path) in str(caught.value)


def test_files_that_cannot_be_read_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        load_config(tmp_path / "missing")
    (tmp_path / "list").write_text("[1]")
    with pytest.raises(ConfigurationError, match="must be a mapping"):
        load_config(tmp_path / "list")
    (tmp_path / "broken").write_text("{")
    with pytest.raises(ConfigurationError, match="invalid YAML"):
        load_config(tmp_path / "broken")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    with pytest.raises(ConfigurationError, match="none of these files exists"):
        load_config()
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match="use --kubeconfig, set KUBECONFIG, or run in a pod"):
        load_config()


def test_a_pod_is_its_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigurationError, match="KUBERNETES_SERVICE_HOST is not set"):
        in_cluster(tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    (tmp_path / "namespace").write_text("system\n")
    config = in_cluster(tmp_path)
    assert (config.server, config.namespace) == ("https://[fd00::1]:443", "system")
    assert config.token_file == str(tmp_path / "token")


async def test_each_credential_gives_its_header(tmp_path: Path) -> None:
    token = load_config(kubeconfig(tmp_path / "a"))
    assert (await authorization_of(token).credential()).header == "Bearer secret-token"
    basic = load_config(kubeconfig(tmp_path / "b", user={"username": "u", "password": "p"}))
    assert (await authorization_of(basic).credential()).header == "Basic " + base64.b64encode(b"u:p").decode()
    nobody = load_config(kubeconfig(tmp_path / "c", user={"client-key": "x"}))
    assert (await authorization_of(nobody).credential()).header is None


API = "client.authentication.k8s.io/v1"


def plugin(folder: Path, *answers: dict[str, Any], **entry: Any) -> dict[str, Any]:
    """A user entry whose plugin gives one answer after the other, and fails after the last."""
    for number, status in enumerate(answers, 1):
        document = {"apiVersion": API, "kind": "ExecCredential", "status": status}
        (folder / f"answer-{number}").write_text(json.dumps(document))
    program = folder / "plugin"
    program.write_text(
        '#!/bin/sh\ncd "$(dirname "$0")" || exit\necho x >> calls\necho "$KUBERNETES_EXEC_INFO" > told\n'
        'exec cat "answer-$(wc -l < calls | tr -d " ")"\n'
    )
    program.chmod(0o755)
    return {"exec": {"apiVersion": API, "command": "./plugin", "interactiveMode": "Never", **entry}}


def calls(folder: Path) -> int:
    return (folder / "calls").read_text().count("x")


async def test_a_plugin_is_asked_again_when_its_answer_has_ended_or_was_refused(tmp_path: Path) -> None:
    """Through the kubernetes package, which is imported here only."""
    user = plugin(
        tmp_path,
        {"token": "one"},
        {"token": "two", "expirationTimestamp": "2020-01-01T00:00:00Z"},
        {"token": "three", "expirationTimestamp": "2120-01-01T00:00:00Z"},
        {"token": "three"},
    )
    source = authorization_of(load_config(kubeconfig(tmp_path / "config", user=user)))
    first = await source.credential()
    assert first.header == "Bearer one"
    assert await source.credential() == first
    assert all(await asyncio.gather(*(source.renew(first) for _ in range(5))))
    assert calls(tmp_path) == 2  # five requests were refused, one asked
    third = await source.credential()
    assert third.header == "Bearer three"
    assert await source.credential() == third
    assert not await source.renew(third)  # the same again: no reason to repeat the request
    with pytest.raises(ConfigurationError, match=r"credentials of context 'one': .*answer-5: No such file"):
        await source.renew(third)


async def test_a_plugin_may_give_a_certificate(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_text("CA")
    status = {"clientCertificateData": "CHAIN", "clientKeyData": "KEY", "token": "t"}
    user = plugin(tmp_path, status, {"clientCertificateData": "CHAIN"}, {}, provideClusterInfo=True)
    config = load_config(kubeconfig(tmp_path / "config", user=user, **{"certificate-authority": str(ca)}))
    credential = await authorization_of(config).credential()
    assert credential == Credential("Bearer t", ClientCertificate(b"CHAIN", b"KEY"))
    assert "KEY" not in repr(credential)
    told = json.loads((tmp_path / "told").read_text())["spec"]["cluster"]
    assert told == {
        "server": "https://api:6443/",
        "certificate-authority-data": base64.b64encode(b"CA").decode(),
    }
    for message in ("returned only one of", "neither a token nor a client certificate"):
        with pytest.raises(ConfigurationError, match=message):
            await authorization_of(config).credential()
    ca.unlink()
    with pytest.raises(ConfigurationError, match=r"certificate-authority .*ca.pem: No such file"):
        load_config(tmp_path / "config")


async def test_a_plugin_that_is_missing_is_named_with_its_hint(tmp_path: Path) -> None:
    user = plugin(tmp_path, command="./nothing", installHint="pip install it")
    source = authorization_of(load_config(kubeconfig(tmp_path / "config", user=user)))
    with pytest.raises(ConfigurationError, match=r"nothing'; pip install it"):
        await source.credential()
    with_token = {**user, "token": "given"}
    source = authorization_of(load_config(kubeconfig(tmp_path / "config", user=with_token)))
    assert (await source.credential()).header == "Bearer given"


async def test_an_unknown_provider_is_refused(tmp_path: Path) -> None:
    user = {"auth-provider": {"name": "azure", "config": {"x": "y"}}}
    source = authorization_of(load_config(kubeconfig(tmp_path / "config", user=user)))
    with pytest.raises(
        ConfigurationError, match="the auth provider returned no token; only oidc and gcp are supported"
    ):
        await source.credential()


@pytest.mark.parametrize("key", ["BearerToken", "authorization"])
async def test_the_token_of_a_provider_is_found_in_each_version_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """The Kubeflow SDK needs one before 36, which stores it under another key."""

    class Loader:
        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        def load_and_set(self, configuration: Any) -> None:
            configuration.api_key[key] = "Bearer token"

    monkeypatch.setattr("kubernetes.config.kube_config.KubeConfigLoader", Loader)
    user = {"auth-provider": {"name": "oidc"}}
    source = authorization_of(load_config(kubeconfig(tmp_path / "config", user=user)))
    assert (await source.credential()).header == "Bearer token"


def test_files_of_a_tls_context_are_watched(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_text("not a certificate")
    cluster: dict[str, Any] = {"certificate-authority": str(ca)}
    files = TLSFiles(load_config(kubeconfig(tmp_path / "config", **cluster)))
    assert not files.changed()
    with pytest.raises(ConfigurationError, match="TLS for https://api:6443"):
        files.context()
    ca.write_text("something else")
    assert files.changed()
    assert not files.changed()
    ca.unlink()
    assert files.changed()


def test_certificates_are_verified_as_other_clients_of_kubernetes_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Since Python 3.13 the default is stricter, and refuses the certificates of some clusters."""
    strict = ssl.create_default_context()
    strict.verify_flags |= ssl.VERIFY_X509_STRICT
    monkeypatch.setattr(ssl, "create_default_context", lambda **_: strict)
    context = TLSFiles(ClusterConfig(server="https://a")).context()
    assert context is strict
    assert not strict.verify_flags & ssl.VERIFY_X509_STRICT
    assert strict.verify_mode is ssl.CERT_REQUIRED
