# SPDX-License-Identifier: Apache-2.0
"""The fixture `local_cluster`: a cluster of each test's own, without any program."""

import asyncio
import gc
from pathlib import Path

import pytest

from tests.pages import blocks_of
from tests.repository import ROOT
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.controller.local.testing.cluster import ClusterHome, LocalCluster
from trainwright.controller.runtime import Client, Forbidden, HTTPTransport, load_config
from trainwright.controller.runtime.testing import ControlPlaneError
from trainwright.controller.runtime.testing.waiting import equals, eventually, eventually_sync, is_empty

pytest_plugins = ["pytester"]
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}


@pytest.mark.parametrize("number", [1, 2])
def test_each_test_has_a_new_one_with_the_definitions_of_the_project(local_cluster: LocalCluster, number: int) -> None:
    assert local_cluster.stored.get("configmap", "a", "default") is None
    assert local_cluster.stored.list("trainjobs") == []
    local_cluster.apply(CONFIG_MAP)
    assert local_cluster.stored.get("configmap", "a", "default") is not None


async def test_any_client_takes_the_kubeconfig_and_everybody_has_all_rights(local_cluster: LocalCluster) -> None:
    for kubeconfig in (local_cluster.kubeconfig, local_cluster.add_user("alice")):
        client = Client(HTTPTransport(load_config(kubeconfig)), user_agent="test")
        assert (await client.list(ConfigMap.RESOURCE, "default")).items == []
        await client.close()


@pytest.mark.local_cluster(rbac=True, crds=())
async def test_with_rbac_users_have_the_rights_of_their_roles(local_cluster: LocalCluster) -> None:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]
    kubeconfig = local_cluster.add_user("alice", rules=rules, namespace="default")
    client = Client(HTTPTransport(load_config(kubeconfig)), user_agent="test")
    assert (await client.list(ConfigMap.RESOURCE, "default")).items == []
    with pytest.raises(Forbidden) as refused:
        await client.create(CONFIG_MAP, kind=ConfigMap.RESOURCE)
    await client.close()
    assert refused.value.message == (
        'configmaps is forbidden: User "alice" cannot create resource "configmaps" in API group "" in the namespace '
        '"default"'
    )


@pytest.mark.local_cluster(controllers=True, crds=())
def test_with_controllers_pods_run_and_namespaces_go(local_cluster: LocalCluster) -> None:
    namespace = local_cluster.create_namespace()
    template = {
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "python", "command": ["true"]}],
        }
    }
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": namespace}}
    local_cluster.apply({**job, "spec": {"template": template}})

    def succeeded() -> object:
        found = local_cluster.stored.get("job", "j", namespace)
        return found and found["status"].get("succeeded")

    eventually_sync(succeeded, equals(1))
    local_cluster.stored.delete("namespace", namespace)


async def test_a_deletion_does_not_block_the_loop_that_lets_the_object_go(local_cluster: LocalCluster) -> None:
    stored = local_cluster.stored
    for name, finalizers in (("free", []), ("held", ["example.com/mine"])):
        about = {"name": name, "namespace": "default", "finalizers": finalizers}
        local_cluster.apply({**CONFIG_MAP, "metadata": about})
    stored.delete("configmap", "free", "default")
    with pytest.raises(ControlPlaneError, match=r"configmap held is still there .*'example.com/mine'.* wait=False"):
        stored.delete("configmap", "held", "default")

    async def lets_go() -> None:
        stored.patch("configmap", "held", {"metadata": {"finalizers": None}}, "default")

    running = asyncio.create_task(lets_go())
    await eventually(lambda: stored.get("configmap", "held", "default"), is_empty)
    await running


def test_nothing_stays(tmp_path: Path) -> None:
    with ClusterHome() as home:
        with LocalCluster(home=home) as one, LocalCluster(home=home, rbac=True) as two:
            assert one.url != two.url
            one.apply(CONFIG_MAP)
            assert two.stored.get("configmap", "a", "default") is None
            folder = one.folder
            with pytest.raises(ControlPlaneError, match="already running"):
                one.start()
        assert not folder.exists()
        with pytest.raises(ControlPlaneError, match="not running"):
            assert one.url
    assert not home.folder.exists()
    with LocalCluster(crds=[ROOT / "config" / "crd"]) as alone:
        assert alone.stored.list("trainjobs") == []
    bad = tmp_path / "bad.yaml"
    bad.write_text("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: x}\n")
    with pytest.raises(ControlPlaneError):
        LocalCluster(crds=[bad]).start()
    gc.collect()


def test_the_tests_of_the_page_for_those_who_come_from_envtest_pass(pytester: pytest.Pytester) -> None:
    blocks = [block.text for block in blocks_of(ROOT / "docs" / "runtime" / "envtest.md") if block.language == "python"]
    pytester.makepyfile("\n\n".join(blocks))
    plugins = ("-p", "trainwright.controller.local.testing.pytest_plugin", "-p", "no:randomly")
    result = pytester.runpytest_subprocess(*plugins, "--asyncio-mode=auto", "--strict-markers", timeout=100)
    result.assert_outcomes(passed=6)
