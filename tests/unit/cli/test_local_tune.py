# SPDX-License-Identifier: Apache-2.0
"""The arguments of `trainwright local tune`: what a --param says, and what is refused before anything starts."""

from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

import pytest

from trainwright.controller.cli.arguments.values import parameter
from trainwright.controller.cli.main import main
from trainwright.controller.optimization import sampler


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
