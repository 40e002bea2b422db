# SPDX-License-Identifier: Apache-2.0
"""Keys, certificates, token and port of a cluster, over restarts."""

import stat
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from tests.assertions import does_not_raise
from tests.unit.local.identity.conftest import ACCOUNTS, Asker
from trainwright.controller.local.cluster import api_server
from trainwright.controller.local.credentials import Credentials
from trainwright.controller.runtime import HTTPTransport, load_config
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.errors import ConfigurationError
from trainwright.controller.runtime.testing.clock import ManualClock

HOSTS = ("127.0.0.1", "localhost")


def leaf(state: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate((state / "pki" / "server.crt").read_bytes())


async def test_a_kubeconfig_and_tokens_outlive_a_restart(tmp_path: Path) -> None:
    async with api_server(tmp_path / "state") as api:
        ask = Asker(api)
        await ask("POST", ACCOUNTS, {"metadata": {"name": "a"}})
        token = await ask.token()
        kubeconfig, url = api.kubeconfig.read_bytes(), api.config.server
    async with api_server(tmp_path / "state") as api:
        assert (api.kubeconfig.read_bytes(), api.config.server) == (kubeconfig, url)
        assert (await Asker(api).review(token))["authenticated"]
        transport = HTTPTransport(load_config(api.kubeconfig))
        try:
            assert (await transport.send(Request("GET", "/api/v1/namespaces/default"))).status == 200
        finally:
            await transport.close()


async def test_a_taken_port_is_replaced(tmp_path: Path) -> None:
    async with api_server(tmp_path / "one", memory=True) as one:
        (tmp_path / "two").mkdir(mode=0o700)
        (tmp_path / "two" / "port").write_text(one.config.server.rpartition(":")[2])
        async with api_server(tmp_path / "two", memory=True) as two:
            assert two.config.server != one.config.server
            assert two.config.server in two.kubeconfig.read_text()
        with pytest.raises(ConfigurationError, match="cannot listen"):
            async with api_server(tmp_path / "three", memory=True, port=int(one.config.server.rpartition(":")[2])):
                pass


def test_all_files_are_private(tmp_path: Path, clock: ManualClock[datetime]) -> None:
    made = Credentials.provide(tmp_path / "state", HOSTS, clock())
    assert len(bytes.fromhex(made.token)) == 32
    for path in (tmp_path / "state").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.parametrize("name", ["pki/sa.key", "pki", "."])
def test_secrets_that_others_can_read_are_refused(tmp_path: Path, clock: ManualClock[datetime], name: str) -> None:
    Credentials.provide(tmp_path / "state", HOSTS, clock())
    (tmp_path / "state" / name).chmod(0o755)
    with pytest.raises(ConfigurationError, match=r"has mode 0755.*chmod [67]00"):
        Credentials.provide(tmp_path / "state", HOSTS, clock())


def test_only_the_leaf_is_renewed_before_it_ends(tmp_path: Path, clock: ManualClock[datetime]) -> None:
    first = Credentials.provide(tmp_path / "state", HOSTS, clock())
    before = leaf(tmp_path / "state")
    clock.now += timedelta(days=330)
    again = Credentials.provide(tmp_path / "state", HOSTS, clock())
    assert leaf(tmp_path / "state") == before
    clock.now += timedelta(days=6)
    again.renew(clock())
    assert leaf(tmp_path / "state").not_valid_after_utc - clock() > timedelta(days=364)
    assert (again.bundle, again.token, again.signing_key.public) == (
        first.bundle,
        first.token,
        first.signing_key.public,
    )


def test_a_certificate_for_other_hosts_is_replaced(tmp_path: Path, clock: ManualClock[datetime]) -> None:
    Credentials.provide(tmp_path / "state", ("localhost",), clock())
    before = leaf(tmp_path / "state")
    Credentials.provide(tmp_path / "state", HOSTS, clock())
    assert leaf(tmp_path / "state") != before


@pytest.mark.parametrize("name", ["ca.crt", "ca.key", "sa.key", "server.crt", "admin.token"])
def test_a_damaged_file_is_named(tmp_path: Path, clock: ManualClock[datetime], name: str) -> None:
    Credentials.provide(tmp_path / "state", HOSTS, clock())
    (tmp_path / "state" / "pki" / name).write_bytes(b"x")
    with pytest.raises(ConfigurationError, match=rf"{name}.*delete it"):
        Credentials.provide(tmp_path / "state", HOSTS, clock())


def test_a_start_that_was_interrupted_is_completed(tmp_path: Path, clock: ManualClock[datetime]) -> None:
    Credentials.provide(tmp_path / "state", HOSTS, clock())
    (tmp_path / "state" / "pki" / "ca.crt").unlink()
    made = Credentials.provide(tmp_path / "state", HOSTS, clock())
    authority = x509.load_pem_x509_certificate(made.bundle)
    with does_not_raise():
        leaf(tmp_path / "state").verify_directly_issued_by(authority)
