# SPDX-License-Identifier: Apache-2.0
"""`make deploy` and `make undeploy` on a cluster, as an admin has them."""

import functools
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import NOWHERE, Trainer
from tests.installation import NAME, NAMESPACE, Installation, kustomized
from tests.repository import ROOT
from trainwright.controller.runtime.testing import ControlPlane, ControlPlaneError
from trainwright.controller.runtime.testing.waiting import eventually_sync

pytestmark = pytest.mark.real_control_plane("kubectl")

IMAGE = "registry.example.com/trainwright:1"


def make(control_plane: ControlPlane, *arguments: str) -> "subprocess.Popen[str]":
    """Make, with the control plane as kubectl's current context."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "KUBE"))}
    environment = {**inherited, "KUBECONFIG": str(control_plane.kubeconfig), "KUBERC": "off"}
    command = ["make", "--no-print-directory", *arguments, f"KUBECTL={control_plane.kubectl_path}"]
    # In a group of its own, so that all of it can be ended.
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def end(process: "subprocess.Popen[str]") -> None:
    """End it with all that it started, if it runs."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
    process.communicate()


def done(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    """Exit code and both outputs."""
    try:
        output, errors = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        end(process)
        raise
    return process.returncode, output, errors


@pytest.fixture
def empty() -> Iterator[ControlPlane]:
    """The whole chain, and nothing of ours in it."""
    with ControlPlane.complete(audit=True) as control_plane:
        yield control_plane


def deployed(control_plane: ControlPlane) -> list[dict[str, Any]]:
    """Each object that a deployment applies, as it is in the cluster."""
    objects = [*kustomized(control_plane, "default"), *kustomized(control_plane, "runtimes")]
    text = control_plane.kubectl(
        "get",
        "--filename=-",
        "--output=json",
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}),
    )
    found: list[dict[str, Any]] = json.loads(text)["items"]
    assert len(found) == len(objects)
    for one in found:
        # The API server may update managedFields once after another client's apply; the generation says more.
        del one["metadata"]["resourceVersion"]
    return found


def deploy(control_plane: ControlPlane) -> str:
    """The first deployment, with the manager started once its pods are there; returns what make printed."""
    process = make(control_plane, "deploy", f"IMG={IMAGE}")
    try:
        eventually_sync(lambda: control_plane.stored.list("deployments"))
        # JobSet has such configurations, too.
        for kind, name in (("mutating", "defaulter"), ("validating", "validator")):
            configuration = (f"{kind}webhookconfigurations", f"{name}.trainer.kubeflow.org")
            eventually_sync(functools.partial(control_plane.stored.get, *configuration))
        Installation(control_plane).start()
        code, output, errors = done(process)
    except BaseException:
        end(process)
        raise
    assert code == 0, output + errors
    return output


def test_a_cluster_gets_the_manager_and_loses_nothing_but_it(empty: ControlPlane) -> None:
    _, _, output = deploy(empty).partition(f"cluster: {empty.url} ")
    steps = [line for line in output.splitlines() if not line.startswith("  ")]
    sample = min((ROOT / "config" / "samples").glob("*.yaml")).relative_to(ROOT)
    assert steps[1:] == [
        f"applying namespace {NAMESPACE} and 4 definitions",
        "waiting for the API server to serve our kinds",
        f"applying the manager with image {IMAGE}, its roles and its webhooks",
        f"waiting for Deployment {NAME}",
        "waiting for an answer of the webhooks",
        f"applying {len(kustomized(empty, 'runtimes'))} runtimes",
        f"done. The first job: kubectl apply --server-side -f {sample}",
    ]
    pods = json.loads(empty.kubectl("get", "pods", f"--namespace={NAMESPACE}", "--output=json"))["items"]
    assert [pod["spec"]["containers"][0]["image"] for pod in pods] == [IMAGE, IMAGE]

    before = deployed(empty)
    assert done(make(empty, "deploy", f"IMG={IMAGE}"))[0] == 0
    assert deployed(empty) == before

    check_roles_of_users(empty)
    change_configuration(empty)
    trainer = Trainer(empty, empty.create_namespace())
    trainer.job("kept", trainer.runtime("waits", **NOWHERE))
    eventually_sync(trainer.pods)
    policy = ROOT / "config" / "components" / "progress-pull" / "policy.yaml"
    empty.kubectl("apply", "--server-side", f"--filename={policy}")
    code, output, errors = done(make(empty, "undeploy"))
    assert code == 0, errors
    policies = "ValidatingAdmissionPolicyBinding {0}, ValidatingAdmissionPolicy {0}".format(
        "kubeflow-trainer-progress-exec"
    )
    assert f"removed what overlays had added: {policies}" in output
    assert not empty.stored.list("validatingadmissionpolicies")
    runtimes = len([one for one in kustomized(empty, "runtimes") if one["kind"] == "ClusterTrainingRuntime"])
    assert (
        f"what stays: {runtimes} clustertrainingruntimes, 0 optimizationjobs, 1 trainingruntimes, 1 trainjobs" in output
    )
    assert "kubectl delete crd clustertrainingruntimes.trainer.kubeflow.org" in output
    left = json.loads(empty.kubectl("get", "all,secrets,leases,roles", f"--namespace={NAMESPACE}", "--output=json"))
    assert [one["metadata"]["name"] for one in left["items"]] == []
    assert len(trainer.pods()) == 1
    # No webhook is called any more, so it can be changed and deleted.
    trainer.kubectl("delete", "trainjob", "kept", "--timeout=60s")


def check_roles_of_users(control_plane: ControlPlane) -> None:
    """Roles that people have already give what their names say; Kubernetes puts ours into them after a moment."""
    jobs, runtimes = "trainjobs.trainer.kubeflow.org", "trainingruntimes.trainer.kubeflow.org"
    for role in ("edit", "view", "kubeflow-trainer-admin"):
        control_plane.kubectl("create", "clusterrolebinding", role, f"--clusterrole={role}", f"--user={role}")

    def may(role: str, verb: str, resource: str) -> bool:
        try:
            control_plane.kubectl("auth", "can-i", verb, resource, f"--as={role}")
        except ControlPlaneError:
            return False
        return True

    eventually_sync(lambda: may("edit", "create", jobs) and may("view", "get", jobs))
    eventually_sync(lambda: may("kubeflow-trainer-admin", "create", runtimes))
    assert not may("edit", "create", runtimes)
    assert not may("view", "create", jobs)


def change_configuration(control_plane: ControlPlane) -> None:
    """The manager reads it at the start only, so it has to restart."""
    changed = {"data": {"controller_manager_config.yaml": "plugins: {disabled: [Flux]}\n"}}
    control_plane.kubectl(
        "patch", "configmap", "kubeflow-trainer-config", f"--namespace={NAMESPACE}", "--patch", json.dumps(changed)
    )
    process = make(control_plane, "deploy", f"IMG={IMAGE}")
    try:
        assert process.stdout is not None
        assert "the Configuration changed: restarting the manager, which reads it at the start\n" in process.stdout

        def restarted() -> str:
            deployment = control_plane.stored.get("deployment", NAME, NAMESPACE) or {}
            annotations = deployment["spec"]["template"]["metadata"].get("annotations", {})
            return str(annotations.get("kubectl.kubernetes.io/restartedAt", ""))

        eventually_sync(restarted)
    finally:
        # Pretended pods are not always reported as ready again.
        end(process)


def test_a_missing_jobset_is_named_and_nothing_is_changed(without_jobsets: ControlPlane) -> None:
    code, _, errors = done(make(without_jobsets, "deploy", f"IMG={IMAGE}"))
    assert code != 0
    assert "JobSet is not installed in this cluster" in errors
    assert "kubectl apply --server-side -f https://github.com/kubernetes-sigs/jobset/" in errors
    assert not without_jobsets.kubectl("get", "namespace", NAMESPACE, "--ignore-not-found")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "name the image of the manager"),
        ({"IMG": "a b"}, "is not an image"),
        ({"IMG": "Upper/case"}, "is not an image"),
        ({"IMG": "example.com/trainwright:1", "KUBECTL": "/nowhere/kubectl"}, "there is no /nowhere/kubectl"),
        ({"IMG": "example.com/trainwright:1", "KUBECONFIG": "/nowhere/config"}, "kubectl has no cluster to work on"),
    ],
)
def test_what_is_wrong_is_said_at_once(control_plane: ControlPlane, arguments: dict[str, Any], says: str) -> None:
    options = {"KUBECTL": control_plane.kubectl_path, "KUBECONFIG": control_plane.kubeconfig, **arguments}
    command = ["make", "--no-print-directory", "deploy", *(f"{name}={value}" for name, value in options.items())]
    finished = subprocess.run(command, cwd=Path(ROOT), capture_output=True, text=True, check=False)
    assert finished.returncode != 0
    assert says in finished.stderr
