# SPDX-License-Identifier: Apache-2.0
"""`trainwright local run` refuses wrong use with a sentence, and with an exit code that no container has."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from trainwright.controller.cli.local import submission
from trainwright.controller.cli.main import main
from trainwright.controller.local.apiserver.store import StateFileError, StateLostError
from trainwright.controller.runtime.errors import ConfigurationError, ConnectionLost
from trainwright.plugins.contract.errors import RegistryError

JOB = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: job}
spec:
  runtimeRef: {name: xgboost-distributed}
  trainer: {numNodes: 2, command: [python, -c, pass]}
"""


class Said(NamedTuple):
    """How a command ended, and what it wrote to its standard error."""

    code: int
    errors: str


Local = Callable[..., Said]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the user is, who has no cluster."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    for name, content in {
        "job.yaml": JOB,
        "two.yaml": "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n",
        "broken.yaml": "a: [\n",
        "script.py": "",
    }.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "binary.yaml").write_bytes(b"\xff")
    return tmp_path


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str]) -> Local:
    """`trainwright local run`, in this process."""

    def said(*arguments: str) -> Said:
        try:
            code = main(["local", "run", *arguments])
        except SystemExit as exit_:
            code = exit_.code if isinstance(exit_.code, int) else -1
        return Said(code, capsys.readouterr().err)

    return said


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "say what to run"),
        (["absent.py"], "absent.py: there is no such file"),
        (["--file=absent.yaml"], "absent.yaml: No such file or directory"),
        (["--file=two.yaml"], "has 0 TrainJobs; it must have one"),
        (["--file=broken.yaml"], "broken.yaml: line"),
        (["--file=binary.yaml"], "binary.yaml is not UTF-8 text\n"),
        (["two.yaml"], "a manifest is given with --file"),
        (["--nodes=2", "--file=job.yaml"], "--nodes: for a script only"),
        (["--job-name=a", "--file=job.yaml"], "--job-name: for a script only"),
        (["--file=job.yaml", "--", "--lr"], "arguments behind --: for a script only"),
        (["--dry-run", "--runtime=mlx-distributed", "script.py"], "cannot run on a local cluster: container node of"),
        (["--detach", "--file=job.yaml"], "--detach needs a cluster that runs"),
        (["--detach", "--name=b", "--file=job.yaml"], "trainwright local up --name=b"),
    ],
)
def test_wrong_use_is_refused_with_a_sentence(run: Local, folder: Path, arguments: list[str], text: str) -> None:
    said = run(*arguments)
    assert said.code == 125
    assert said.errors.startswith("error: ")
    assert text in said.errors
    assert not [path for path in (folder / "state").rglob("*") if path.is_file()], "a cluster was started"


@pytest.mark.parametrize("option", ["--nodes=x", "--nosuch", "--nodes=0", "--restarts=never", "--timeout=0"])
def test_a_wrong_option_has_no_exit_code_that_a_container_may_have(run: Local, option: str) -> None:
    said = run(option, "a.py")
    assert said.code == 125
    assert "error: " in said.errors


@pytest.mark.parametrize("name", ["Bad_Name", "1st", "a-", "-a", "a.b", "größe", "", "a" * 49])
def test_a_job_name_that_the_server_would_refuse_starts_nothing(run: Local, folder: Path, name: str) -> None:
    said = run("script.py", f"--job-name={name}")
    assert said.code == 125
    assert f"argument --job-name: {name!r} is not a name for a TrainJob: use lower case letters" in said.errors
    assert not (folder / "state").exists()


@pytest.mark.parametrize("name", ["a", "a1", "my-job-2", "a" * 48])
def test_a_good_job_name_is_taken(run: Local, name: str) -> None:
    said = run("absent.py", f"--job-name={name}")
    assert (said.code, said.errors) == (125, "error: absent.py: there is no such file\n")


def test_what_is_meant_for_the_script_is_shown_its_place(run: Local) -> None:
    said = run("a.py", "--lr=1")
    assert said.code == 125
    assert "unknown arguments: --lr=1; what the script is given goes behind --" in said.errors


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError("no"), 125),
        (RegistryError(["no"]), 125),
        (StateFileError("no"), 125),
        (OSError(errno.ENOSPC, "no"), 125),
        (ConnectionLost("no"), 1),
        (StateLostError("no"), 1),
        (KeyboardInterrupt(), 130),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, BaseException) else str(one),
)
def test_what_is_refused_and_what_was_lost(
    run: Local, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    """Before a job runs, the code is one that no container has; a cluster that is lost later is a failure."""

    async def broken(*_: object) -> int:
        raise error

    monkeypatch.setattr(submission, "run", broken)
    said = run("--file=job.yaml")
    assert said.code == code
    assert said.errors.endswith("no\n") == (code in (1, 125))
