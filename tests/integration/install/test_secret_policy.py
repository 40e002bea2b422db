# SPDX-License-Identifier: Apache-2.0
"""What the manager's account may do with Secrets: create those of TrainJobs, and nothing else."""

import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from trainwright.api.kubernetes.core.v1 import Secret
from trainwright.controller.cli.rbac import SECRET_POLICY, secret_policy
from trainwright.controller.runtime import Client, Discovery, Forbidden, HTTPTransport, load_config
from trainwright.controller.runtime.errors import Invalid
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.plugins.registry import Registry
from trainwright.plugins.registry.discovery import built_in

CERTIFICATE = "hooks-cert"
RIGHTS: Any = [
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [CERTIFICATE], "verbs": ["get", "patch", "list"]},
]
"""Those of the shipped roles, in one namespace."""
TOKEN = "kubernetes.io/service-account-token"
SSH = "kubernetes.io/ssh-auth"
REFUSED = "may only write the Secrets that its plugins make for TrainJobs"


def owner(name: str = "job", kind: str = "TrainJob", group: str = "trainer.kubeflow.org", **more: Any) -> Any:
    found = {"apiVersion": f"{group}/v1alpha1", "kind": kind, "name": name, "uid": "u-1", "controller": True}
    return {**found, **more}


def secret(namespace: str, name: str, kind: str, *owners: Any) -> Any:
    """With data that fits the type, and the account of the manager for a token."""
    account = {"kubernetes.io/service-account.name": "kubeflow-trainer-controller-manager"} if kind == TOKEN else {}
    metadata = {"name": name, "namespace": namespace, "ownerReferences": list(owners), "annotations": account}
    return {"metadata": metadata, "type": kind, "data": {"ssh-privatekey" if kind == SSH else "a": "eA=="}}


@pytest.fixture
async def manager(control_plane: ControlPlane, namespace: str) -> AsyncIterator[Client]:
    """A client with the account of a manager in the namespace, where the policy is in force."""
    account = f"system:serviceaccount:{namespace}:kubeflow-trainer-controller-manager"
    token = control_plane.users.add_service_account(account.rpartition(":")[2], namespace, rules=RIGHTS)
    admin = Client(HTTPTransport(load_config(control_plane.kubeconfig)))
    client = Client(
        HTTPTransport(load_config(control_plane.users.kubeconfig_with_token(f"manager-{namespace}", token)))
    )
    discovery, documents = Discovery(admin), secret_policy(Registry.load(candidates=built_in()), namespace, CERTIFICATE)
    for document in documents:
        document["metadata"]["name"] = f"{SECRET_POLICY}-{namespace}"
        document["spec"] |= {"policyName": f"{SECRET_POLICY}-{namespace}"} if "policyName" in document["spec"] else {}
        await admin.create(document, kind=await discovery.resource_of(document))

    probes = itertools.count()

    async def in_force() -> bool:
        try:
            await client.create(secret(namespace, f"probe-{next(probes)}", "Opaque"), kind=Secret.RESOURCE)
        except Invalid as error:
            return REFUSED in str(error)
        return False

    await eventually(in_force, what="the policy is in force")
    yield client
    for document in reversed(documents):
        await admin.delete(await discovery.resource_of(document), document["metadata"]["name"])
    await client.close()
    await admin.close()


@pytest.mark.parametrize(
    ("name", "kind", "owners"),
    [
        pytest.param("t", TOKEN, (), id="a token"),
        pytest.param("job-mpi-ssh-auth", TOKEN, (owner(),), id="a token with the name of keys"),
        pytest.param(CERTIFICATE, TOKEN, (), id="a token with the name of the certificate"),
        pytest.param("job-mpi-ssh-auth", SSH, (), id="keys of no job"),
        pytest.param("job-mpi-ssh-auth", SSH, (owner(controller=False),), id="keys that a job does not control"),
        pytest.param("job-mpi-ssh-auth", SSH, (owner(kind="Job", group="batch"),), id="keys of another kind"),
        pytest.param("job-mpi-ssh-auth", SSH, (owner(group="trainer.kubeflow.org.x"),), id="keys of another group"),
        pytest.param("other-mpi-ssh-auth", SSH, (owner(),), id="keys with the name of another job"),
        pytest.param("job-mpi-ssh-auth", "Opaque", (owner(),), id="keys of another type"),
        pytest.param("job-x", "Opaque", (owner(),), id="something else of a job"),
        pytest.param("job", "kubernetes.io/dockerconfigjson", (owner(),), id="a password of a registry"),
    ],
)
async def test_other_secrets_are_refused(
    manager: Client, namespace: str, name: str, kind: str, owners: tuple[Any, ...]
) -> None:
    document = secret(namespace, name, kind, *owners)
    if kind.endswith("dockerconfigjson"):
        document["data"] = {".dockerconfigjson": "e30="}
    with pytest.raises(Invalid, match=REFUSED):
        await manager.create(document, kind=Secret.RESOURCE)


async def test_what_plugins_declare_and_the_certificate_are_made_and_nothing_is_read(
    manager: Client, namespace: str
) -> None:
    mine = [
        secret(namespace, "job-mpi-ssh-auth", SSH, owner()),
        secret(namespace, "job-flux-curve", "Opaque", owner()),
        secret(namespace, CERTIFICATE, "Opaque"),
    ]
    for document in mine:
        await manager.create(document, kind=Secret.RESOURCE)
    await manager.patch(Secret, CERTIFICATE, namespace, {"data": {"b": "eA=="}})
    with pytest.raises(Forbidden):
        await manager.get(Secret, "job-mpi-ssh-auth", namespace)
    with pytest.raises(Forbidden):
        await manager.list(Secret, namespace)


@pytest.mark.usefixtures("manager")
async def test_the_secrets_of_others_are_not_its_business(control_plane: ControlPlane, namespace: str) -> None:
    theirs = {"apiVersion": "v1", "kind": "Secret", **secret(namespace, "users", "Opaque")}
    made = control_plane.stored.create(theirs)
    assert made["metadata"]["name"] == "users"
