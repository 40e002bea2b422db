# SPDX-License-Identifier: Apache-2.0
"""`trainwright.run`: what a function becomes, what is refused, and what a notebook shows."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

import trainwright
from tests.builders import condition, train_job
from trainwright.api.errors import UserError
from trainwright.api.objects import Document
from trainwright.api.times import wall_clock
from trainwright.controller.cli import python
from trainwright.controller.cli.local import functions, scripts
from trainwright.controller.cli.local.local_jobs import LocalJobs
from trainwright.controller.runtime import Client
from trainwright.controller.trainer.progress.curve import Sample
from trainwright.controller.views.ended import Ended
from trainwright.controller.views.job import History, view_of
from trainwright.controller.views.parameters import options_of, parameters_of


def train(lr: float = 0.1, **more: object) -> None:
    print(f"lr ${lr} of {more}", "a\\b", "`q`", "$(HOME)")  # what a shell or Kubernetes would change


def test_importing_the_package_loads_nothing_else() -> None:
    code = "import sys, trainwright; print([name for name in sys.modules if name.startswith('trainwright.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert trainwright.run is python.run
    with pytest.raises(AttributeError, match="has no attribute 'runs'"):
        _ = trainwright.runs


def test_a_function_arrives_as_it_was_written_and_with_its_parameters() -> None:
    sent = functions.sent(train, {"lr": 0.5, "note": "it's $HOME\n"})
    command = [word.replace("$$(", "$(") for word in sent.command([sys.executable, "-I"])]  # as Kubernetes does
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "lr $0.5 of {'note': \"it's $HOME\\n\"} a\\b `q` $(HOME)\n"


def test_the_parameters_of_a_function_are_parameters_of_the_job() -> None:
    """Also as the Kubeflow SDK sends it, which leaves to the shell what it changes."""
    ours = functions.sent(train, {"lr": 0.5, "api_key": "word", "path": "$a\\b"}).command(["torchrun"])
    theirs = (
        "pip install torch\n\nread -r -d '' SCRIPT << EOM\n\ndef train(lr):\n    pass\n\ntrain(**{'lr': 0.25})\n\nEOM\n"
        'printf "%s" "$SCRIPT" > "a.py"\npython "a.py"'
    )
    found = [
        {one.name: value for one, value in parameters_of({"spec": {"trainer": {"command": command}}}).items()}
        for command in (ours, ["bash", "-c", theirs], ["bash", "-c", theirs.replace("**{'lr': 0.25}", "")])
    ]
    assert options_of({"spec": {"trainer": {"command": ours}}}) == {
        "lr": "0.5",
        "api_key": "(hidden)",
        "path": "$a\\b",
    }
    names = [one.pop("function").partition(" (")[0] for one in found]
    assert names == ["train", "train", "train"]
    assert found == [
        {"command": "torchrun", "lr": "0.5", "api_key": "(hidden)", "path": "$a\\b"},
        {"command": "python", "lr": "0.25"},
        {"command": "python"},
    ]


def needs(lr: float) -> None:
    print(lr)


def closed_over() -> Callable[[], None]:
    rate = 1

    def inner() -> None:
        print(rate)

    return inner


@pytest.mark.parametrize(
    ("function", "parameters", "why"),
    [
        (closed_over(), {}, "inner uses rate of the function around it"),
        (lambda: None, {}, "is not a function that def makes"),
        (len, {}, "is not a function that def makes"),
        (eval("exec('def made(): pass') or locals()['made']"), {}, "the source of made cannot be read"),
        (needs, {}, "needs cannot be called with these parameters: missing a required argument: 'lr'"),
        (needs, {"lr": 1, "rate": 2}, "got an unexpected keyword argument 'rate'"),
        (train, {"data": object()}, "parameter data is of type object"),
        (train, {"lr": float("nan")}, "parameter lr is of type float"),
    ],
    ids=["closure", "lambda", "built in", "no source", "missing", "unknown", "object", "nan"],
)
def test_what_cannot_travel_is_refused(function: Callable[..., Any], parameters: dict[str, Any], why: str) -> None:
    with pytest.raises(UserError, match=why):
        functions.sent(function, parameters)


@pytest.mark.parametrize("options", [{"nodes": 0}, {"name": "Bad_Name"}])
def test_a_wrong_option_is_an_error_as_the_command_says_it(options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="is not a n"):
        python.run(train, **options)


def test_a_script_that_is_sent_finds_its_arguments(tmp_path: Path) -> None:
    script = tmp_path / "a.py"
    script.write_text("import sys\nprint(sys.argv[1:])\n")
    done = subprocess.run(
        [sys.executable, "-c", scripts.program_of(script, ["--lr=0.1"])], capture_output=True, text=True, check=True
    )
    assert done.stdout == "['--lr=0.1']\n"


def test_a_notebook_shows_texts_as_texts() -> None:
    job = train_job("run", status={"trainerStatus": {"progressPercentage": 40}})
    run = [Sample(at=1.0, values={"<b>loss": value}) for value in (3.0, 1.0, 2.0)]
    shown = python.as_html(view_of(job, History(), wall_clock()), run)
    assert '<progress max="100" value="40">' in shown
    assert "&lt;b&gt;loss</th><td>2 <svg" in shown
    assert 'points="0.0,0.0 120.0,40.0 240.0,20.0"' in shown


def test_waiting_reads_no_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a long training would be read each second."""
    job: Document = msgspec.to_builtins(train_job("run", conditions=[condition("Complete")]))

    class Jobs:
        async def get(self, _: str) -> Document:
            return job

        async def ended(self, _: object) -> Ended:
            return Ended(cast("Client", None))

    run = python.Run(job, None)
    monkeypatch.setattr(run, "_call", lambda work: asyncio.run(work(cast("LocalJobs", Jobs()))))
    monkeypatch.setattr(run, "_samples", lambda _: pytest.fail("it reads the curve"))
    assert run.wait() == run.state == "Complete"
