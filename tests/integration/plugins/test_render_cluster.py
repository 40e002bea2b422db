# SPDX-License-Identifier: Apache-2.0
"""`trainwright render --cluster` against a real API server: its runtimes, and the difference from what it has."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tests.builders import train_job
from trainwright.api.objects import wire
from trainwright.api.trainer.v1alpha1 import TrainingRuntime, TrainJob
from trainwright.controller.cli.main import main
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.plugins.contract import OFFLINE
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry, built_in
from trainwright.plugins.testing import replicated_job, runtime_document

ROOT = Path(__file__).parents[3]
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"


@pytest.fixture
def server(with_jobsets: ControlPlane) -> ControlPlane:
    return with_jobsets


def runtime(namespace: str) -> dict[str, Any]:
    jobs = (replicated_job("launcher"), replicated_job("node"))
    return runtime_document("ring", *jobs, namespace=namespace, policy={"mpi": {}})


def job(namespace: str, image: str = "mine", nodes: int = 2) -> dict[str, Any]:
    reference = {"name": "ring", "kind": "TrainingRuntime"}
    trainer = {"numNodes": nodes, "image": image}
    return wire(train_job("tune", namespace, uid="", runtimeRef=reference, suspend=True, trainer=trainer))


def render(server: ControlPlane, file: Path, document: dict[str, Any], *arguments: str) -> int:
    file.write_text(yaml.safe_dump(document))
    return main(["render", "-f", str(file), "--cluster", "--kubeconfig", str(server.kubeconfig), *arguments])


def create(server: ControlPlane, namespace: str) -> None:
    """What the manager would have made of the job."""
    stored = server.stored.get("trainjobs", "tune", namespace)
    pipeline = Pipeline(Registry.load(candidates=built_in()))
    rendering = pipeline.begin(
        msgspec.convert(stored, TrainJob), msgspec.convert(runtime(namespace), TrainingRuntime)
    ).render(OFFLINE)
    for component in rendering.components:
        document = component.generate(component.document) if component.generate else component.document
        server.stored.apply(document, field_manager="trainer")


def test_new_objects_are_all_difference(
    server: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace = server.create_namespace()
    server.apply(runtime(namespace))

    assert render(server, tmp_path / "job.yaml", job(namespace)) == 0

    output = capsys.readouterr().out
    assert output.count("--- nothing") == 3
    assert "+++ JobSet tune" in output
    assert not [line for line in output.splitlines() if line.startswith("-") and not line.startswith("---")]


def test_what_is_there_is_compared_and_secrets_stay_secret(
    server: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace = server.create_namespace()
    server.apply(runtime(namespace), job(namespace))
    create(server, namespace)

    assert render(server, tmp_path / "job.yaml", job(namespace)) == 0
    assert capsys.readouterr().out == ""

    # Not what could be applied to the job, but what would be if it could.
    changed = runtime(namespace)
    changed["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["nodeSelector"] = {
        "zone": "b"
    }
    server.apply(changed)
    assert render(server, tmp_path / "job.yaml", job(namespace)) == 0
    output = capsys.readouterr().out
    added = [line for line in output.splitlines() if line.startswith("+") and not line.startswith("+++")]
    assert [line.strip("+ ") for line in added] == ["nodeSelector:", "zone: b"]
    assert "PRIVATE" not in output
    assert "ssh-privatekey" not in output


def test_objects_are_printed_with_the_uid_of_the_stored_job(
    server: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace = server.create_namespace()
    server.apply(runtime(namespace), job(namespace))
    uid = (server.stored.get("trainjobs", "tune", namespace) or {})["metadata"]["uid"]

    assert render(server, tmp_path / "job.yaml", job(namespace), "-o", "yaml") == 0

    documents = list(yaml.safe_load_all(capsys.readouterr().out))
    assert {d["metadata"]["ownerReferences"][0]["uid"] for d in documents} == {uid}
    assert [d["kind"] for d in documents] == ["ConfigMap", "Secret", "JobSet"]


def test_a_runtime_that_nobody_has_is_an_error(
    server: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert render(server, tmp_path / "job.yaml", job(server.create_namespace())) == 1
    problem = capsys.readouterr().err
    assert "spec.runtimeRef: TrainingRuntime ring is unknown" in problem
    assert "the cluster has no such runtime either" in problem


def test_what_the_cluster_does_not_serve_concerns_that_job_alone(
    server: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for sample in ("07-gang-volcano.yaml", "01-plain.yaml"):
        (tmp_path / f"{10 - int(sample[:2])}.yaml").write_text((ROOT / "config" / "samples" / sample).read_text())
    arguments = ["--cluster", "--kubeconfig", str(server.kubeconfig)]

    assert main(["render", "-f", str(tmp_path), *arguments]) == 1

    output = capsys.readouterr()
    assert output.err == (
        "error: TrainJob volcano: the cluster does not serve PodGroup of scheduling.volcano.sh/v1beta1; "
        "install its CustomResourceDefinition\n"
    )
    assert "+++ JobSet plain\n" in output.out


def test_an_object_that_may_not_be_read_concerns_the_job_that_needs_it(
    server: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace = server.create_namespace()
    server.apply(runtime(namespace))
    rules = [
        {"apiGroups": ["trainer.kubeflow.org"], "resources": ["*"], "verbs": ["get"]},
        {"apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"], "verbs": ["get"], "resourceNames": ["other"]},
    ]
    reader = server.add_user(f"reader-{namespace}", rules=rules, namespace=namespace)
    simple, other = runtime(namespace), job(namespace)
    simple["metadata"]["name"], simple["spec"]["mlPolicy"] = "plain", {}
    other["metadata"]["name"], other["spec"]["runtimeRef"]["name"] = "other", "plain"
    for name, document in {"1": job(namespace), "2": other, "3": simple}.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(document))
    arguments = ["--cluster", "--kubeconfig", str(reader), "-o", "yaml"]

    assert main(["render", "-f", str(tmp_path), *arguments]) == 1

    output = capsys.readouterr()
    (problem,) = output.err.splitlines()
    assert problem.startswith(f"error: TrainJob tune: JobSet {namespace}/tune cannot be read: ")
    (jobset,) = yaml.safe_load_all(output.out)
    assert jobset["metadata"]["name"] == "other"


def test_no_cluster_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job("x")))
    arguments = ["--cluster", "--kubeconfig", str(tmp_path / "none")]
    assert main(["render", "-f", str(tmp_path / "job.yaml"), *arguments]) == 1
    assert "error: " in capsys.readouterr().err
