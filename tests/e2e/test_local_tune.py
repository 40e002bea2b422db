# SPDX-License-Identifier: Apache-2.0
"""`trainwright local tune`: a search of a script, its table, its end, and what Ctrl-C leaves for --resume."""

import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.shell import TRAINWRIGHT, Shell
from trainwright.controller.runtime.testing.waiting import eventually_sync

pytestmark = pytest.mark.timeout(900)
SCRIPT = """
import os, sys, time
from trainwright.progress import Reporter

rate = float(os.environ["KUBEFLOW_TRAINER_OPT_LR"])
assert sys.argv[1:] == ["--rate", os.environ["KUBEFLOW_TRAINER_OPT_LR"]], sys.argv
while os.path.exists(WAIT) and os.environ["TRAINWRIGHT_OUTPUT_DIR"].rpartition("-")[0][-2:] != "-1":
    time.sleep(0.05)
with Reporter(total=2) as progress:
    progress.update(step=1, loss=9.0)
    progress.update(step=2, loss=abs(rate - 0.5))
with open(os.path.join(os.environ["TRAINWRIGHT_OUTPUT_DIR"], "model"), "w") as file:
    file.write(str(rate))
"""
SEARCH = ("--runtime=xgboost-distributed", "--param=lr=uniform:0:1", "--objective=loss", "--seed=1")


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with Shell.with_cluster(tmp_path_factory.mktemp("tune")) as made:
        yield made


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "train.py"
    file.write_text(SCRIPT.replace("WAIT", repr(str(tmp_path / "wait"))))
    return file


def values_of(said: str) -> list[tuple[int, float, float]]:
    """Number, loss and rate of each trial that is complete."""
    found = re.findall(r"^trial (\d+): Complete, loss (\S+?)(?: \(best\))?, lr=(\S+)$", said, re.MULTILINE)
    return [(int(number), float(loss), float(rate)) for number, loss, rate in found]


def test_a_search_ends_with_the_best_trial_and_the_command_that_trains_it_again(shell: Shell, script: Path) -> None:
    done = shell.local(
        "tune",
        *SEARCH,
        "--trials=4",
        "--parallel=2",
        "--job-name=first",
        str(script),
        "--",
        "--rate",
        "{lr}",
        seconds=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    trials = values_of(done.stdout)
    assert sorted(number for number, _, _ in trials) == [1, 2, 3, 4]
    assert all(loss == pytest.approx(abs(rate - 0.5), abs=1e-3) for _, loss, rate in trials)
    number, loss, rate = min(trials, key=lambda one: one[1])
    assert f"search first: 4/4 trials, best loss {loss:g} (trial {number})" in done.stdout
    output = re.search(r"^its output: (\S+)$", done.stdout, re.MULTILINE)
    assert output is not None
    exact = (Path(output[1]) / "model").read_text()
    assert float(exact) == pytest.approx(rate, rel=1e-3)
    assert f"  lr   {exact}\n" in done.stdout
    again = re.search(r"^to train it again: (.*)$", done.stdout, re.MULTILINE)
    assert again is not None
    words = shlex.split(again[1])
    assert words[:3] == ["trainwright", "local", "run"]
    assert words[-3:] == ["--", "--rate", exact]
    repeated = shell.local(*words[2:], seconds=120)
    assert repeated.returncode == 0, repeated.stdout + repeated.stderr
    # The name of a search is not taken twice by chance.
    refused = shell.local("tune", *SEARCH, "--job-name=first", str(script))
    assert refused.returncode == 125
    assert refused.stderr == (
        'error: optimizationjobs.trainer.kubeflow.org "first" already exists; go on with '
        "`trainwright local tune --resume=first`, or choose another --job-name\n"
    )
    assert re.search(r"^searches that are deleted with them: .*\bfirst\b", shell.local("clean").stdout, re.MULTILINE)
    ended = shell.local("stop", "first")
    assert (ended.returncode, ended.stderr) == (1, "error: search first has ended: MaxTrialsReached\n")
    deleted = shell.local("delete", "first", seconds=120)
    assert (deleted.returncode, deleted.stdout) == (0, "search first: deleted with its trials\n"), deleted.stderr
    assert "first-" not in shell.local("jobs").stdout


def explained_as(kubeconfig: str) -> Callable[[], str]:
    """What `explain` says of the search that is stopped."""

    def explained() -> str:
        command = [*TRAINWRIGHT, "explain", "second", kubeconfig]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 3, done.stdout
        return done.stdout

    return explained


def test_ctrl_c_keeps_what_has_ended_and_resume_goes_on(shell: Shell, script: Path) -> None:
    (script.parent / "wait").touch()
    command = ("tune", *SEARCH, "--trials=3", "--job-name=second", str(script), "--", "--rate", "{lr}")
    with shell.start(*command) as begun:
        assert begun.stdout is not None
        first = next(line for line in begun.stdout if line.startswith("trial 1: "))
        eventually_sync(lambda: "Running" in shell.local("show", "second-2").stdout, seconds=180)
        begun.send_signal(signal.SIGINT)
        _, errors = begun.communicate()
    assert begun.returncode == 130, errors
    assert "interrupted: 1/3 trials, 1 not over" in errors
    assert "trainwright local tune --resume=second" in errors
    eventually_sync(lambda: "Suspended" in shell.local("show", "second-2").stdout, seconds=180)
    kubeconfig = f"--kubeconfig={shell.folder}/trainwright/local/default/kubeconfig"
    text = eventually_sync(explained_as(kubeconfig), lambda text: "  TrainJob second-2 waits: " in text, seconds=180)
    assert text.startswith("OptimizationJob default/second: Paused\n  1/3 trials, 1 not over, best loss ")
    assert "  the search is stopped: no trial begins until its annotation trainwright.io/suspend is removed\n" in text
    # The trial that was stopped is over: the search alone can begin another, and does not.
    assert shell.local("delete", "second-2", seconds=120).returncode == 0
    eventually_sync(explained_as(kubeconfig), lambda text: "  2/3 trials, 1 failed" in text, seconds=180)
    again = shell.local("stop", "second", seconds=120)
    assert (again.returncode, again.stdout.splitlines()[0]) == (0, "search second: is stopped already"), again.stderr
    assert "second-3" not in shell.local("jobs").stdout
    (script.parent / "wait").unlink()
    done = shell.local("tune", "--resume=second", seconds=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(number for number, _, _ in values_of(done.stdout)) == [1, 3]
    assert values_of(first)[0] in values_of(done.stdout)


def test_a_search_without_a_value_fails_with_the_reason_of_its_first_trial(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("raise SystemExit(3)")
    done = shell.local(
        "tune", *SEARCH, "--trials=2", "--parallel=2", "--job-name=bad", str(tmp_path / "bad.py"), seconds=240
    )
    assert done.returncode == 1
    assert "trial 1: Failed, " in done.stdout
    assert "error: search bad: 2 trials failed and none gave a value; the first, TrainJob bad-1: " in done.stderr
    assert "exit code 3" in done.stderr
    assert "retries" not in done.stdout + done.stderr
    resumed = shell.local("resume", "bad")
    assert resumed.stderr == "error: search bad has ended: TrialsFailed; begin another\n"
    cleaned = shell.local("clean", "--yes")
    assert cleaned.returncode == 0, cleaned.stderr
    assert shell.local("delete", "bad").stderr == "error: there is no TrainJob bad in namespace default\n"
