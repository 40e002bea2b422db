# SPDX-License-Identifier: Apache-2.0
"""`trainwright explain` as a user gives it: exit codes, text, JSON, missing rights. No manager runs here."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.builders import condition, train_job
from trainwright.api.objects import wire
from trainwright.controller.cli.main import main
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.plugins.testing import runtime_document


class Shell:
    """The command with the kubeconfig of a user, in one namespace."""

    def __init__(self, control_plane: ControlPlane, namespace: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.control_plane = control_plane
        self.namespace = namespace
        self._capsys = capsys

    def job(self, name: str = "j", **spec: Any) -> None:
        reference = {"kind": "TrainingRuntime", "name": "r"}
        self.create(runtime_document("r"))
        self.create(wire(train_job(name, uid="", runtimeRef=reference, **spec)))

    def create(self, document: dict[str, Any]) -> None:
        metadata = {**document["metadata"], "namespace": self.namespace}
        self.control_plane.stored.create({**document, "metadata": metadata})

    def explain(self, *arguments: str, kubeconfig: Path | None = None) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        code = main(["explain", *arguments, *self.place(kubeconfig)])
        printed = self._capsys.readouterr()
        return code, printed.out, printed.err

    def place(self, kubeconfig: Path | None = None) -> list[str]:
        return [f"--namespace={self.namespace}", f"--kubeconfig={kubeconfig or self.control_plane.kubeconfig}"]

    def end(self, kind: str) -> None:
        body = {"status": {"conditions": [condition(kind, reason="Test", message="the test ends it")]}}
        self.control_plane.stored.patch("trainjob", "j", body, self.namespace, subresource="status")


@pytest.fixture
def shell(without_jobsets: ControlPlane, namespace: str, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(without_jobsets, namespace, capsys)


def test_a_job_that_waits(shell: Shell) -> None:
    shell.job(suspend=True)
    code, out, err = shell.explain("j")
    assert (code, err) == (3, "")
    first, second = out.splitlines()
    assert first == "Suspended: the job is suspended by its spec.suspend: set it to false to start the job"
    assert second.startswith(f"  TrainJob {shell.namespace}/j, since 20")


def test_a_job_that_is_stuck_as_data(shell: Shell) -> None:
    shell.job()
    code, out, err = shell.explain("j", "-o", "json")
    found = json.loads(out)
    assert (code, err) == (1, "")
    assert (found["outcome"], found["exitCode"], found["name"]) == ("Stuck", 1, "j")
    assert found["cause"]["reason"] == "JobSetMissing"
    assert found["cause"]["object"]["kind"] == "CustomResourceDefinition"
    assert found["notRead"] == []


@pytest.mark.parametrize(("kind", "code", "word"), [("Complete", 0, "Complete: "), ("Failed", 1, "Failed: ")])
def test_a_job_that_is_over(shell: Shell, kind: str, code: int, word: str) -> None:
    shell.job()
    shell.end(kind)
    found, out, _ = shell.explain("j")
    assert found == code
    assert out.startswith(word)


def test_wrong_use(shell: Shell, tmp_path: Path) -> None:
    assert shell.explain("nothing") == (
        2,
        "",
        f"error: there is no TrainJob nothing in namespace {shell.namespace}\n",
    )
    code, out, err = shell.explain("j", kubeconfig=tmp_path / "none")
    assert (code, out) == (2, "")
    assert str(tmp_path / "none") in err
    with pytest.raises(SystemExit) as stopped:
        main(["explain"])
    assert stopped.value.code == 2


def test_a_user_who_may_read_the_job_only(shell: Shell) -> None:
    rules = [{"apiGroups": ["trainer.kubeflow.org"], "resources": ["trainjobs"], "verbs": ["get"]}]
    kubeconfig = shell.control_plane.add_user(f"reader-{shell.namespace}", rules=rules, namespace=shell.namespace)
    shell.job()
    code, out, _ = shell.explain("j", kubeconfig=kubeconfig)
    assert code == 1
    assert out.startswith("Stuck: JobSet is not installed in this cluster")
    assert f"not read: no right to get trainingruntimes.trainer.kubeflow.org in namespace {shell.namespace}" in out


def test_a_user_who_may_not_read_the_job(shell: Shell) -> None:
    kubeconfig = shell.control_plane.add_user(f"nobody-{shell.namespace}")
    shell.job()
    code, out, err = shell.explain("j", kubeconfig=kubeconfig)
    assert (code, out) == (2, "")
    assert 'cannot get resource "trainjobs"' in err


def test_all_causes(shell: Shell) -> None:
    shell.job(suspend=True)
    shell.control_plane.stored.delete("trainingruntime", "r", shell.namespace)
    code, out, _ = shell.explain("j")
    assert code == 1
    lines = out.splitlines()
    assert lines[0].startswith("Stuck: TrainingRuntime r does not exist")
    assert [line for line in lines if line.startswith("also: ")] == [
        "also: the job is suspended by its spec.suspend: set it to false to start the job"
    ]
    _, everything, _ = shell.explain("j", "--all")
    assert len(everything.splitlines()) == len(lines) + 1  # the object and the time of the other cause


def test_watching_ends_with_the_job(shell: Shell) -> None:
    shell.job(suspend=True)
    command = [sys.executable, "-m", "trainwright.controller.cli.main", "explain", "j", "--watch", *shell.place()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline().startswith("Suspended: the job is suspended")
        shell.end("Complete")
        rest = watching.stdout.read()
        assert watching.wait() == 0
    assert "Complete: the job is complete" in rest
