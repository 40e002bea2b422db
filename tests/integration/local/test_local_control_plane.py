# SPDX-License-Identifier: Apache-2.0
"""The local API server behind the interface of the test kit's control plane."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repository import ROOT
from trainwright.api.base import Resource
from trainwright.controller.local.testing.control_plane import LocalControlPlane
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.runtime.testing import ControlPlaneError

pytest_plugins = ["pytester"]
REVIEW = Resource(
    group="authentication.k8s.io", version="v1", kind="SelfSubjectReview", plural="selfsubjectreviews", namespaced=False
)


@pytest.fixture(scope="module")
def plane() -> Iterator[LocalControlPlane]:
    with LocalControlPlane(crds=[ROOT / "config" / "crd"], audit=True) as running:
        yield running


async def who(plane: LocalControlPlane, kubeconfig: Path | None = None) -> dict[str, object]:
    client = Client(HTTPTransport(load_config(kubeconfig or plane.kubeconfig)), user_agent="test")
    try:
        found: dict[str, object] = (await client.create({}, kind=REVIEW))["status"]["userInfo"]
    finally:
        await client.close()
    return found


async def test_users_have_client_certificates(plane: LocalControlPlane) -> None:
    assert (await who(plane))["username"] == "kubernetes-admin"
    carol = await who(plane, plane.add_user("carol", groups=["staff", "ml"]))
    assert (carol["username"], set(carol["groups"])) == ("carol", {"staff", "ml", "system:authenticated"})  # type: ignore[call-overload]
    assert str(carol["extra"]).startswith("{'authentication.kubernetes.io/credential-id': ['X509SHA256=")


async def test_accounts_have_tokens(plane: LocalControlPlane) -> None:
    namespace = plane.create_namespace()
    token = plane.users.add_service_account("a", namespace)
    kubeconfig = plane.users.kubeconfig_with_token("a", token)
    assert (await who(plane, kubeconfig))["username"] == f"system:serviceaccount:{namespace}:a"


def test_calls_are_logged(plane: LocalControlPlane) -> None:
    namespace = plane.create_namespace(labels={"a": "b"})
    calls = [call for call in plane.audit_log.calls() if call.name == namespace]
    assert [(call.verb, call.resource, call.code) for call in calls] == [("create", "namespaces", 201)]


def test_objects_outlive_a_restart_and_its_folder_is_private_and_goes_with_it() -> None:
    with LocalControlPlane(crds=[ROOT / "config" / "crd"]) as plane:
        plane.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}})
        plane.restart("kube-apiserver", kill=True)
        assert plane.stored.get("configmap", "a", "default") is not None
        assert plane.stored.list("trainjobs") == []
        folder = plane.folder
        for path in (folder / "state").rglob("*"):
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
        port = int(plane.url.rpartition(":")[2])
        with pytest.raises(ControlPlaneError, match="in use"):
            LocalControlPlane(port=port).start()
    assert not folder.exists()


PROJECT = """
import pytest

def test_local(control_plane, namespace):
    assert type(control_plane).__name__ == "LocalControlPlane"
    assert control_plane.stored.get("namespace", namespace) is not None

@pytest.mark.real_control_plane("etcd")
def test_rights(control_plane):
    raise AssertionError("must not run")

def test_chain(cluster):
    raise AssertionError("must not run")

class TestWithItsOwn:
    @pytest.fixture
    def cluster(self):
        return "mine"

    def test_it_is_no_control_plane(self, cluster):
        assert cluster == "mine"
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_the_plugin_leaves_out_what_needs_the_real_one(
    workers: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No program of a cache is needed, and none could be built.
    monkeypatch.setenv("KUBEBUILDER_ASSETS", "/nowhere")
    pytester.makepyfile(PROJECT)
    plugin = "trainwright.controller.local.testing.pytest_plugin"
    options = ("--control-plane=local", "-p", "no:randomly", "-n", workers)
    result = pytester.runpytest_subprocess("-p", plugin, *options, timeout=100)
    # The workers of pytest-xdist do not tell it what they deselect.
    result.assert_outcomes(passed=2, deselected=2 if workers == "0" else 0)
    result.stdout.fnmatch_lines(["2 tests need the real control plane: etcd 1, the whole chain 1"])
