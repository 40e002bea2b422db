# SPDX-License-Identifier: Apache-2.0
"""The arguments of `trainwright local tune`: what a --param says, and what is refused before anything starts."""

from argparse import ArgumentTypeError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.unit.optimization.conftest import optimization_job
from trainwright.api.times import format_time, wall_clock
from trainwright.api.trainer.v1alpha1 import OptimizationJob, TrainJob
from trainwright.controller.cli.arguments.values import parameter
from trainwright.controller.cli.local import searches
from trainwright.controller.cli.local.local_jobs import LocalJobs, RefusedError
from trainwright.controller.cli.main import main
from trainwright.controller.optimization import names, sampler
from trainwright.controller.runtime import NotFound


@pytest.mark.parametrize(
    ("text", "space"),
    [
        ("lr=loguniform:1e-5:1e-1", {"logUniform": {"min": "1e-5", "max": "1e-1", "type": "Float"}}),
        ("momentum=uniform:-0.5:1", {"uniform": {"min": "-0.5", "max": "1", "type": "Float"}}),
        ("layers=int:1:8", {"uniform": {"min": "1", "max": "8", "type": "Int"}}),
        ("width=logint:16:1024", {"logUniform": {"min": "16", "max": "1024", "type": "Int"}}),
        ("batch=16,32", {"categorical": {"choices": ["16", "32"]}}),
        ("mode=a=b,uniform:0:1", {"categorical": {"choices": ["a=b", "uniform:0:1"]}}),
    ],
)
def test_a_parameter(text: str, space: dict[str, Any]) -> None:
    assert parameter(text) == {"name": text.partition("=")[0], "searchSpace": space}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lr", "'lr' is not a parameter: write NAME=loguniform:1e-5:1e-1, "),
        ("=1,2", "is not a parameter"),
        (f"{'x' * 65}=1,2", "is not a parameter"),
        ("lr=0.1", "names neither a range nor choices: write NAME=loguniform:"),
        ("lr=normal:0:1", "names neither a range nor choices"),
        ("lr=uniform:.5:1", "names neither a range nor choices"),
        ("lr=uniform:0:1:2", "names neither a range nor choices"),
        ("lr=uniform:1:1", "1 is not below 1"),
        ("lr=loguniform:0:1", "a range on a logarithmic scale begins above 0"),
        ("batch=16,,32", "names neither a range nor choices"),
        ("batch=16,16", "names a choice twice"),
        ("é=1,2", "'é' cannot become a variable; name it with the letters a to z, digits, '_', '-' and '.'"),
        ("l r=1,2", "'l r' cannot become a variable"),
        ("lr=uniform:0:1e999", "the bounds are too far apart"),
        ("lr=int:-1e999:1", "the bounds are too far apart"),
        ("lr=int:1:1e400", "the bounds are too far apart"),
        ("lr=uniform:-1e308:1e308", "the bounds are too far apart"),
        ("lr=logint:1e999:1e999", "1e999 is not below 1e999"),
        ("lr=1,\udcff", "is not a parameter"),
    ],
)
def test_what_is_not_a_parameter_is_refused_with_what_to_write(text: str, said: str) -> None:
    with pytest.raises(ArgumentTypeError) as refused:
        parameter(text)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("train.py --objective=loss", "say what to search with --param"),
        ("train.py --param=a=1,2", "name the metric to compare trials by with --objective"),
        ("--param=a=1,2 --objective=loss", "say what to run"),
        ("no.py --param=a=1,2 --objective=loss", "no.py: there is no such file"),
        ("train.py --param=a=1,2 --param=a=3,4 --objective=loss", "--param: a is given twice"),
        ("train.py --param=a=1,2 --objective=loss --trials=2 --parallel=3", "--parallel=3 is more than --trials=2"),
        ("train.py --param=a=1,2 --objective=loss --warmup-steps=3", "--warmup-steps goes with --pruner"),
        ("train.py --param=a=int:1:2 --objective=loss --sampler=grid", "--sampler=grid needs choices for every"),
        ("train.py --param=a=1,2 --objective=loss --sampler=cmaes", "the sampler cmaes needs two parameters or more"),
        ("--resume=x --param=a=1,2", "--resume goes on with a search as it was begun: leave out --param\n"),
        ("--resume=x --trials=20 --parallel=1 --sampler=random", "leave out --trials, --parallel, --sampler\n"),
        ("--resume=x --direction=minimize --seed=0 --pruner=asha", "leave out --direction, --seed, --pruner\n"),
        ("--resume=x --env=A=1 --nodes=2 --warmup-steps=0", "leave out --warmup-steps, --nodes, --env\n"),
        (
            "--resume=x --job-name=y train.py -- --lr {lr}",
            "leave out --job-name, train.py, the arguments of the script\n",
        ),
    ],
)
def test_wrong_use_is_refused_before_a_cluster_starts(
    words: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    assert main(["local", "tune", *words.split()]) == 125
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert said in error
    assert not (tmp_path / "state").exists()


def test_a_missing_library_is_told_before_a_cluster_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    monkeypatch.setitem(sampler.LIBRARIES, "tpe", ["no_such_library"])
    assert main(["local", "tune", "train.py", "--param=a=1,2", "--objective=loss", "--sampler=tpe"]) == 125
    assert "no_such_library is not installed; install it with: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("passed", "warned"),
    [
        (
            "--x {foo} --y={a} {foo}",
            "warning: the script gets {foo} as it is written: there is no --param foo, only a\n",
        ),
        ("--x {a} {} {'b':1}", ""),
    ],
)
def test_a_placeholder_of_no_parameter_is_told(
    passed: str, warned: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--param=a=1,2", "--objective=loss", "no.py", "--", *passed.split()]
    assert main(["local", "tune", *words]) == 125
    assert capsys.readouterr().err == f"{warned}error: no.py: there is no such file\n"


class Cluster:
    """A search with two places: its second trial has completed a moment ago, and is not yet counted as over.

    The operator hears of the pause after the first look, and had begun a third trial before.
    """

    def __init__(self) -> None:
        self.job = optimization_job("s", numTrials=9, parallelTrials=2) | {"metadata": {"name": "s", "namespace": "n"}}
        self.job["metadata"]["uid"] = "search"
        self.trials = {"s-1": trial("s-1"), "s-2": trial("s-2", format_time(wall_clock()))}
        self.looks = self.late = 0
        """`late`: so many looks after a resume, the operator hears of it."""
        self.patched: list[str] = []

    async def get(self, kind: Any, name: str, _: str) -> Any:
        if kind is OptimizationJob:
            self.looks += 1
            if self.looks == 2:
                self.trials["s-3"] = trial("s-3")
                message = f"paused: until {names.ANNOTATION_SUSPEND} is removed"
                heard = {"type": "Created", "status": "True", "reason": "R", "message": message}
                self.job["status"] = {"conditions": [heard | {"lastTransitionTime": "2026-01-01T00:00:00Z"}]}
            if not self.job["metadata"].get("annotations") and self.late:
                self.late -= 1
                self.job |= {} if self.late else {"status": {"conditions": []}}
            return msgspec.convert(self.job, OptimizationJob)
        if name not in self.trials:
            raise NotFound(name)
        return self.trials[name]

    async def list(self, kind: Any, *_: Any, **__: Any) -> Any:
        if kind is OptimizationJob:
            return SimpleNamespace(items=[msgspec.convert(self.job, OptimizationJob)])
        return SimpleNamespace(items=[msgspec.convert(one, TrainJob) for one in self.trials.values()])

    async def patch(self, _: Any, name: str, __: str, patch: dict[str, Any]) -> None:
        self.patched.append(name)
        changed: dict[str, Any] = self.job if name == "s" else self.trials[name]
        changed["spec"] |= patch.get("spec", {})
        marks = patch["metadata"].get("annotations", {})
        changed["metadata"]["annotations"] = {mark: value for mark, value in marks.items() if value is not None}


def trial(name: str, completed: str = "", **metadata: Any) -> dict[str, Any]:
    made = {"type": "Complete", "status": "True", "reason": "R", "message": "", "lastTransitionTime": completed}
    return {
        "metadata": {"name": name, "namespace": "n", "uid": name, "labels": {names.LABEL_JOB: "s"}, **metadata},
        "spec": {"runtimeRef": {"name": "r"}},
        "status": {"conditions": [made] if completed else []},
    }


async def test_a_search_is_stopped_until_the_operator_has_heard_of_it_and_no_trial_runs() -> None:
    cluster: Any = Cluster()
    view = await searches.pause(cluster, msgspec.convert(cluster.job, OptimizationJob))
    assert cluster.patched == ["s", "s-1", "s-3"]  # the search first; the trial that has ended is left alone
    assert view.paused
    assert [cluster.trials[name]["spec"].get("suspend") for name in ("s-1", "s-2", "s-3")] == [True, None, True]
    assert await searches.go_on(cluster, msgspec.convert(cluster.job, OptimizationJob))
    assert cluster.patched[3:] == ["s-1", "s-3", "s"]
    assert not await searches.go_on(cluster, msgspec.convert(cluster.job, OptimizationJob))


async def test_a_pause_right_after_a_resume_is_not_taken_for_heard_because_the_one_before_was() -> None:
    cluster: Any = Cluster()
    job = msgspec.convert(cluster.job, OptimizationJob)
    await searches.pause(cluster, job)
    await searches.go_on(cluster, job)
    cluster.late, cluster.patched = 2, []
    await searches.pause(cluster, job)
    assert (cluster.late, cluster.patched) == (0, ["s", "s-1", "s-3"])


async def test_commands_for_jobs_say_that_a_name_is_that_of_a_search() -> None:
    cluster: Any = Cluster()
    jobs = LocalJobs(cluster, "n")
    with pytest.raises(RefusedError, match=r"^s is a search; its trials are .* s-1, s-2 .* trainwright explain s$"):
        await jobs.get("s")
    with pytest.raises(RefusedError, match=r"^there is no TrainJob t in namespace n$"):
        await jobs.get("t")


def test_a_search_is_cleaned_when_it_has_ended_and_keeps_no_trial_that_has() -> None:
    when = "2026-01-01T00:00:00Z"
    owner = {"apiVersion": "v1", "kind": "OptimizationJob", "name": "s", "uid": "search", "controller": True}
    first, second = (trial(name, when, ownerReferences=[owner]) for name in ("s-1", "s-2"))
    running = trial("s-3", ownerReferences=[owner])
    document = optimization_job("s")
    document["metadata"] |= {"uid": "search", "namespace": "n"}
    unfinished = msgspec.convert(document, OptimizationJob)
    ended = msgspec.convert(document | {"status": first["status"]}, OptimizationJob)
    jobs = [first, second, running]
    assert [*searches.deletable([ended], jobs, [first])] == []
    assert [*searches.deletable([ended, unfinished], jobs, [first, second])] == [ended]
    alone = trial("alone") | {"metadata": {"name": "alone", "namespace": "n"}}
    assert searches.without_trials([*jobs, alone], [ended]) == [alone]
    assert searches.without_trials(jobs, []) == jobs
