# SPDX-License-Identifier: Apache-2.0
"""A training cluster with `--rbac`: people have the rights of their roles, which the shipped roles add TrainJobs to."""

import functools
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trainwright.api.base import Resource
from trainwright.controller.cli.local.training import training_cluster
from trainwright.controller.local.cluster import RunningCluster
from trainwright.controller.local.controllers.objects import CLUSTER_ROLE, NAMESPACE
from trainwright.controller.local.node.settings import NodeSettings
from trainwright.controller.runtime import Client, Forbidden, HTTPTransport
from trainwright.controller.runtime.testing.waiting import contains, eventually

BINDING = Resource(
    group="rbac.authorization.k8s.io", version="v1", kind="RoleBinding", plural="rolebindings", namespaced=True
)
ACCOUNT = Resource(group="", version="v1", kind="ServiceAccount", plural="serviceaccounts", namespaced=True)
TRAINJOB = Resource(
    group="trainer.kubeflow.org", version="v1alpha1", kind="TrainJob", plural="trainjobs", namespaced=True
)
RUNTIME = Resource(
    group="trainer.kubeflow.org",
    version="v1alpha1",
    kind="ClusterTrainingRuntime",
    plural="clustertrainingruntimes",
    namespaced=False,
)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[RunningCluster]:
    settings = NodeSettings(name="rights", folder=tmp_path / "state")
    async with training_cluster(settings, memory=True, rbac=True) as running:
        await running.manager.client.create({"metadata": {"name": "team"}}, kind=NAMESPACE)
        yield running


async def account(cluster: RunningCluster, name: str, role: str) -> Client:
    """A client of a new service account that a ClusterRole is bound to in the namespace `team`."""
    client = cluster.manager.client
    await client.create({"metadata": {"name": name, "namespace": "team"}}, kind=ACCOUNT)
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "team"}
    reference = {"apiGroup": BINDING.group, "kind": "ClusterRole", "name": role}
    about = {"name": name, "namespace": "team"}
    await client.create({"metadata": about, "subjects": [subject], "roleRef": reference}, kind=BINDING)
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await client.post_subresource(ACCOUNT, name, "team", "token", asked)
    return Client(HTTPTransport(replace(cluster.api.config, token=answer["status"]["token"])))


async def rules_of(client: Client, role: str) -> list[str]:
    rules: list[dict[str, Any]] = (await client.get(CLUSTER_ROLE, role)).get("rules") or []
    return [plural for rule in rules for plural in rule.get("resources") or ()]


async def test_people_have_the_rights_of_their_roles(cluster: RunningCluster) -> None:
    job = {
        "metadata": {"name": "one", "namespace": "team"},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, "suspend": True},
    }
    editor, viewer = await account(cluster, "editor", "edit"), await account(cluster, "viewer", "view")
    await editor.create(job, kind=TRAINJOB)
    assert (await viewer.get(TRAINJOB, "one", "team"))["spec"]["suspend"] is True
    with pytest.raises(Forbidden, match="cannot delete resource"):
        await viewer.delete(TRAINJOB, "one", "team")
    with pytest.raises(Forbidden, match="cannot create resource"):
        await editor.create({"metadata": {"name": "mine"}, "spec": {}}, kind=RUNTIME)
    with pytest.raises(Forbidden, match='in the namespace "default"'):
        await editor.list(TRAINJOB, "default")
    for client in (editor, viewer):
        await client.close()


async def test_roles_that_collect_show_what_they_have(cluster: RunningCluster) -> None:
    client = cluster.manager.client
    for role, plural in (("edit", "trainjobs"), ("view", "trainjobs"), ("kubeflow-trainer-admin", "trainingruntimes")):
        await eventually(functools.partial(rules_of, client, role), contains(plural))
