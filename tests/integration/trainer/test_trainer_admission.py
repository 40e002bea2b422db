# SPDX-License-Identifier: Apache-2.0
"""Admission on a real API server that asks our webhooks; on one of its own, since webhooks concern everybody."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders import train_job
from tests.managers import start_manager
from trainwright.api.objects import wire
from trainwright.controller.runtime.certificates.configurations import webhooks_by_url
from trainwright.controller.runtime.testing import ControlPlane, ControlPlaneError
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.runtime.testing.waiting import contains, eventually_sync
from trainwright.controller.trainer.admission.configurations import webhook_configurations
from trainwright.plugins.testing import replicated_job, runtime_document

CRDS = Path(__file__).parents[3] / "config" / "crd"


@pytest.fixture(scope="module")
def admitted(new_control_plane: type[ControlPlane], jobset_crd: Path) -> Iterator[ControlPlane]:
    """An API server with our manager and its webhooks, registered by URL."""
    with new_control_plane(crds=[CRDS, jobset_crd]) as control_plane:
        start_manager(control_plane, webhooks=True)
        yield control_plane


@pytest.fixture
def space(admitted: ControlPlane) -> str:
    """A namespace of the test's own."""
    return admitted.create_namespace()


def runtime(name: str, *, replicas: int = 1) -> dict[str, Any]:
    return runtime_document(name, {**replicated_job(), "replicas": replicas})


def job(name: str, **spec: Any) -> dict[str, Any]:
    return wire(train_job(name, uid="", **{"runtimeRef": {"kind": "TrainingRuntime", "name": "runtime"}, **spec}))


def document(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    api = "trainer.kubeflow.org/v1alpha1"
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec}


def create(control_plane: ControlPlane, namespace: str, *documents: dict[str, Any]) -> None:
    for one in documents:
        control_plane.stored.create(placed(one, namespace))


def placed(document: dict[str, Any], namespace: str) -> dict[str, Any]:
    """The document in a namespace."""
    return {**document, "metadata": {**document["metadata"], "namespace": namespace}}


def refusal(control_plane: ControlPlane, namespace: str, wanted: dict[str, Any]) -> str:
    """Why the API server refuses the document; empty if it would take it."""
    try:
        control_plane.stored.create(placed(wanted, namespace), dry_run=True)
    except ControlPlaneError as error:
        return str(error)
    return ""


def patch(control_plane: ControlPlane, namespace: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
    return control_plane.stored.patch("trainjob", name, body, namespace)


def test_runtime_and_job_may_come_together(admitted: ControlPlane, space: str) -> None:
    create(admitted, space, runtime("runtime"), job("job"))
    assert admitted.stored.get("trainjob", "job", space)


def test_a_job_without_its_runtime_is_refused(admitted: ControlPlane, space: str) -> None:
    refused = refusal(admitted, space, job("job"))
    assert "denied the request: spec.runtimeRef: Invalid value:" in refused
    assert "TrainingRuntime runtime does not exist" in refused


def test_a_runtime_of_the_same_name_and_the_other_kind_is_hinted_at(admitted: ControlPlane, space: str) -> None:
    create(admitted, space, runtime("runtime"))
    wanted = document("TrainJob", "job", {"runtimeRef": {"name": "runtime"}})
    # The hint is from the manager's cache.
    refused = eventually_sync(lambda: refusal(admitted, space, wanted), contains("of this name"))
    assert "ClusterTrainingRuntime runtime does not exist" in refused
    assert "a TrainingRuntime of this name exists: to use it, set spec.runtimeRef.kind to TrainingRuntime" in refused


def test_a_runtime_that_no_configmap_can_hold_is_refused(admitted: ControlPlane, space: str) -> None:
    large = runtime("runtime")
    pod = large["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    large_pod = {"containers": [{**pod["containers"][0], "args": ["x" * 60_000] * 18}]}
    create(admitted, space, json.loads(json.dumps(large).replace(json.dumps(pod), json.dumps(large_pod))))
    refused = refusal(admitted, space, job("job"))
    assert "TrainingRuntime runtime has 108" in refused
    assert "holds 1048576 bytes at most; make the runtime smaller" in refused


def test_a_reference_to_no_runtime_is_refused(admitted: ControlPlane, space: str) -> None:
    wanted = document("TrainJob", "job", {"runtimeRef": {"apiGroup": "apps", "kind": "Deployment", "name": "x"}})
    assert "refers to the unsupported kind Deployment.apps" in refusal(admitted, space, wanted)


def test_all_errors_of_a_runtime_come_at_once(admitted: ControlPlane, space: str) -> None:
    wanted = runtime("bad", replicas=2)
    pod = wanted["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod_of_another_name = {**pod, "containers": [{"name": "other", "image": "example.com/none"}]}
    wanted = json.loads(json.dumps(wanted).replace(json.dumps(pod), json.dumps(pod_of_another_name)))
    refused = refusal(admitted, space, wanted)
    assert "spec.template.spec.replicatedJobs[0].replicas: Invalid value: 2" in refused
    assert "spec.template.spec.replicatedJobs[0].template.spec.template.spec.containers: Invalid value" in refused


def test_all_errors_of_a_job_come_at_once(admitted: ControlPlane, space: str) -> None:
    torch = runtime("runtime")
    torch["spec"]["mlPolicy"]["torch"] = {}
    create(admitted, space, torch)
    entry = {"manager": "nobody", "trainingRuntimeSpec": {"template": {"metadata": {"labels": {"a": "b"}}}}}
    wanted = job(
        "job",
        trainer={"env": [{"name": "PET_NNODES", "value": "1"}]},
        initializer={"dataset": {"storageUri": "hf://a/b"}},
        runtimePatches=[entry],
    )
    refused = refusal(admitted, space, wanted)
    for expected in ("spec.runtimeRef: Invalid", "spec.runtimePatches.manager: Invalid", "spec.trainer.env: Invalid"):
        assert expected in refused


def test_patches_get_the_time_of_their_last_change(admitted: ControlPlane, space: str) -> None:
    def patches(value: str, **more: Any) -> dict[str, Any]:
        template = {"metadata": {"labels": {"a": value}}}
        entry = {"manager": "example.com/tuner", "trainingRuntimeSpec": {"template": template}, **more}
        return {"spec": {"runtimePatches": [entry]}}

    early = "2020-01-01T00:00:00Z"
    create(admitted, space, runtime("runtime"), job("job", suspend=True, **patches("1", time=early)["spec"]))
    unchanged = patch(admitted, space, "job", patches("1", time="2021-01-01T00:00:00Z"))
    assert unchanged["spec"]["runtimePatches"][0]["time"] == early
    changed = patch(admitted, space, "job", patches("2", time="2021-01-01T00:00:00Z"))
    assert changed["spec"]["runtimePatches"][0]["time"] > "2026"


def test_a_job_whose_runtime_is_gone_can_still_be_labelled_resumed_and_deleted(
    admitted: ControlPlane, space: str
) -> None:
    create(admitted, space, runtime("runtime"), job("job", suspend=True))
    # The snapshot is taken before the JobSet is made.
    eventually_sync(lambda: admitted.stored.get("jobset", "job", space))
    admitted.stored.delete("trainingruntime", "runtime", space)
    assert patch(admitted, space, "job", {"metadata": {"labels": {"a": "b"}}})["metadata"]["labels"] == {"a": "b"}
    assert patch(admitted, space, "job", {"spec": {"suspend": False}})["spec"]["suspend"] is False
    admitted.stored.delete("trainjob", "job", space, wait=False)


def test_nothing_stands_in_the_way_of_a_job_that_is_going(admitted: ControlPlane, space: str) -> None:
    wanted = job("job")
    wanted["metadata"]["finalizers"] = ["example.com/slow"]
    create(admitted, space, runtime("runtime"), wanted)
    entry = {"manager": "example.com/tuner", "trainingRuntimeSpec": {"template": {"metadata": {"labels": {"a": "b"}}}}}
    change = {"spec": {"runtimePatches": [entry]}}
    with pytest.raises(ControlPlaneError, match="only while the TrainJob is suspended"):
        patch(admitted, space, "job", change)
    admitted.stored.delete("trainjob", "job", space, wait=False)
    patch(admitted, space, "job", {**change, "metadata": {"finalizers": None}})
    assert admitted.stored.get("trainjob", "job", space) is None


def test_labels_change_and_jobs_go_while_no_manager_answers(
    new_control_plane: type[ControlPlane], jobset_crd: Path
) -> None:
    with new_control_plane(crds=[CRDS, jobset_crd]) as alone:
        space = alone.create_namespace()
        wanted = job("job")
        wanted["metadata"]["finalizers"] = ["example.com/slow"]
        create(alone, space, wanted, runtime("runtime"))
        nowhere = f"https://127.0.0.1:{free_port()}"
        alone.apply(*(webhooks_by_url(one, nowhere, b"", {}) for one in webhook_configurations()))
        eventually_sync(lambda: refusal(alone, space, job("another")), contains("failed calling webhook"))
        annotated = patch(alone, space, "job", {"metadata": {"annotations": {"a": "b"}, "labels": {"a": "b"}}})
        assert (annotated["metadata"]["annotations"], annotated["metadata"]["labels"]) == ({"a": "b"}, {"a": "b"})
        alone.stored.patch("trainingruntime", "runtime", {"metadata": {"finalizers": ["a/b"]}}, space)
        with pytest.raises(ControlPlaneError, match="failed calling webhook"):
            patch(alone, space, "job", {"spec": {"suspend": True}})
        alone.stored.delete("trainjob", "job", space, wait=False)
        patch(alone, space, "job", {"metadata": {"finalizers": None}})
        assert alone.stored.get("trainjob", "job", space) is None


@pytest.mark.real_control_plane("kubectl")
def test_a_name_that_is_too_long_for_its_pods_is_warned_of(admitted: ControlPlane, space: str) -> None:
    create(admitted, space, runtime("runtime"))
    long = "j" * 60
    # kubectl prints warnings, and fails on them when asked to.
    with pytest.raises(ControlPlaneError, match="is too long by 12 characters"):
        admitted.kubectl(
            "create",
            "--warnings-as-errors",
            "--dry-run=server",
            "--namespace",
            space,
            "--filename=-",
            stdin=json.dumps(placed(job(long), space)),
        )


@pytest.mark.real_control_plane("kubectl")
def test_a_deprecated_runtime_is_warned_of_at_every_change(admitted: ControlPlane, space: str) -> None:
    made = runtime(f"old-{space}")
    create(admitted, space, {**made, "kind": "ClusterTrainingRuntime"})
    create(admitted, space, job("job", runtimeRef={"name": f"old-{space}"}))
    change = ("label", "trainjob", "job", "--namespace", space, "--overwrite", "--warnings-as-errors")
    admitted.kubectl(*change, "a=b")
    # The job's snapshot was taken before the runtime became deprecated.
    admitted.kubectl("label", "clustertrainingruntime", f"old-{space}", "trainer.kubeflow.org/support=deprecated")

    def warning() -> str:
        try:
            return admitted.kubectl(*change, f"a={time.monotonic_ns()}")
        except ControlPlaneError as error:
            return str(error)

    eventually_sync(warning, contains(f'ClusterTrainingRuntime "old-{space}" is deprecated'))
