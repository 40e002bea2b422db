# SPDX-License-Identifier: Apache-2.0
"""Credentials from exec plugins and auth providers, checked by a real API server."""

import json
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.config.kube_config import KubeConfigMerger

from tests.integration.runtime.identities import CLIENT, Issuer, who_am_i
from trainwright.controller.runtime import Client, ClusterConfig, HTTPTransport, load_config
from trainwright.controller.runtime.client import external
from trainwright.controller.runtime.errors import ConfigurationError
from trainwright.controller.runtime.testing import ControlPlane, ControlPlaneError
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.runtime.testing.programs import Authority

API = "client.authentication.k8s.io/v1"
PLUGIN = f"""#!/bin/sh
echo x >> {{folder}}/calls
number=$(wc -l < {{folder}}/calls | tr -d " ")
echo '{{{{"apiVersion": "{API}", "kind": "ExecCredential", "status": '; cat {{folder}}/answer-$number; echo '}}}}'
"""


def kubeconfig(path: Path, control_plane: ControlPlane, user: dict[str, Any], **cluster: Any) -> ClusterConfig:
    """The administrator's kubeconfig with another user, and perhaps another server."""
    document = yaml.safe_load(control_plane.kubeconfig.read_text())
    document["users"][0]["user"] = user
    document["clusters"][0]["cluster"] |= cluster
    path.write_text(yaml.safe_dump(document))
    return load_config(path)


@asynccontextmanager
async def connected(config: ClusterConfig) -> AsyncIterator[Client]:
    client = Client(HTTPTransport(config))
    try:
        yield client
    finally:
        await client.close()


def certificate(files: tuple[Path, Path]) -> dict[str, str]:
    chain, key = files
    return {"clientCertificateData": chain.read_text(), "clientKeyData": key.read_text()}


def issued(control_plane: ControlPlane, user: str) -> dict[str, str]:
    """A client certificate that the API server's authority signed."""
    [entry] = yaml.safe_load(control_plane.add_user(user).read_text())["users"]
    return certificate((Path(entry["user"]["client-certificate"]), Path(entry["user"]["client-key"])))


@pytest.mark.real_control_plane("foreign client certificates")
async def test_certificates_of_a_plugin(control_plane: ControlPlane, tmp_path: Path) -> None:
    alice, bob = (f"{name}-{secrets.token_hex(3)}" for name in ("alice", "bob"))
    answers: list[dict[str, str]] = [
        certificate(Authority(tmp_path / "foreign").client("mallory", [])),
        issued(control_plane, alice) | {"expirationTimestamp": "2020-01-01T00:00:00Z"},
        issued(control_plane, bob),
    ]
    for number, status in enumerate(answers, 1):
        (tmp_path / f"answer-{number}").write_text(json.dumps(status))
    plugin = tmp_path / "plugin"
    plugin.write_text(PLUGIN.format(folder=tmp_path))
    plugin.chmod(0o755)
    user = {"exec": {"apiVersion": API, "command": str(plugin), "interactiveMode": "Never"}}
    async with connected(kubeconfig(tmp_path / "config", control_plane, user)) as client:

        def calls() -> int:
            return (tmp_path / "calls").read_text().count("x")

        # The first is refused with 401: the plugin is asked again. The second ends at once: the next request asks anew.
        assert await who_am_i(client) == alice
        assert calls() == 2
        assert [await who_am_i(client) for _ in range(3)] == [bob] * 3
        assert calls() == 3


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    with Issuer(tmp_path_factory.mktemp("issuer")) as running:
        yield running


@pytest.fixture(scope="module")
def trusting(control_plane: ControlPlane, issuer: Issuer) -> Iterator[str]:
    """URL of a second API server on the same etcd, which trusts the issuer."""
    port = free_port()
    url = f"https://127.0.0.1:{port}"
    other = ("--secure-port=", "--audit-")
    command = [part for part in control_plane.components["kube-apiserver"].command if not part.startswith(other)]
    command += [
        f"--secure-port={port}",
        f"--oidc-issuer-url={issuer.url}",
        f"--oidc-client-id={CLIENT}",
        f"--oidc-ca-file={issuer.authority.certificate}",
        "--oidc-username-prefix=oidc:",
    ]

    def ready() -> bool:  # it asks the issuer for its keys after it says that it is ready
        try:
            return "oidc:alice" in control_plane.kubectl(
                "auth", "whoami", f"--server={url}", f"--token={issuer.token(60)}"
            )
        except ControlPlaneError:
            return False

    control_plane.launch("trusting", command, ready=ready)
    yield url
    control_plane.stop_program("trusting", kill=True)


@pytest.mark.real_control_plane("OIDC")
async def test_tokens_of_an_issuer(control_plane: ControlPlane, issuer: Issuer, trusting: str, tmp_path: Path) -> None:
    path, used = tmp_path / "config", issuer.refresh_tokens[-1]
    async with connected(kubeconfig(path, control_plane, issuer.user(issuer.token(3600)), server=trusting)) as client:
        assert await who_am_i(client) == "oidc:alice"
    assert issuer.refresh_tokens[-1] == used
    expired = issuer.user(issuer.token(-60))
    async with connected(kubeconfig(path, control_plane, expired, server=trusting)) as client:
        assert [await who_am_i(client) for _ in range(2)] == ["oidc:alice"] * 2
    assert issuer.refresh_tokens[-2] == used
    # An issuer takes each refresh token once: what it gave instead is in the file, as after kubectl.
    kept = yaml.safe_load(path.read_text())["users"][0]["user"]["auth-provider"]["config"]
    assert kept["refresh-token"] == issuer.refresh_tokens[-1]
    control_plane.kubectl("auth", "whoami", f"--server={trusting}", f"--token={kept['id-token']}")
    async with connected(kubeconfig(path, control_plane, expired, server=trusting)) as client:
        with pytest.raises(ConfigurationError, match=r"credentials of context .*used already"):
            await who_am_i(client)


@pytest.mark.real_control_plane("OIDC")
async def test_renewed_tokens_are_kept_where_the_file_cannot_be_written(
    control_plane: ControlPlane, issuer: Issuer, trusting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config"
    config = kubeconfig(path, control_plane, issuer.user(issuer.token(-60)), server=trusting)
    given, before = path.read_text(), issuer.refresh_tokens[-1]
    monkeypatch.setattr(KubeConfigMerger, "save_config", refuse)
    monkeypatch.setattr(external, "_FRESH_SECONDS", 0.0)
    async with connected(config) as client:
        assert [await who_am_i(client) for _ in range(3)] == ["oidc:alice"] * 3
    assert path.read_text() == given
    assert issuer.refresh_tokens.index(before) == len(issuer.refresh_tokens) - 2  # it was asked once


def refuse(_: Any, path: str) -> None:
    raise PermissionError(13, "Permission denied", path)
