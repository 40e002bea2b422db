# SPDX-License-Identifier: Apache-2.0
"""`trainwright local run SCRIPT`: what the TrainJob of a script or a module says."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainwright.controller.cli import state
from trainwright.controller.cli.commands import WrongUseError
from trainwright.controller.cli.local import local_jobs, scripts
from trainwright.controller.cli.local.options import options_of
from trainwright.controller.cli.main import build_parser, main
from trainwright.controller.local.node.document import expand


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, in which the user is."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    here = tmp_path / "project"
    here.mkdir()
    (here / "train.py").touch()
    monkeypatch.chdir(here)
    return here


def job_of(*words: str) -> Any:
    """The TrainJob of a command line; what follows `--` is for the script."""
    own, rest = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, ())
    arguments = build_parser().parse_args(["local", "run", *own])
    arguments.passed_on = list(rest)
    (job,) = scripts.documents_of(arguments)
    return job


def command_of(*words: str) -> list[str]:
    found: list[str] = job_of(*words)["spec"]["trainer"]["command"]
    return found


def environment_of(*words: str) -> dict[str, str]:
    return {one["name"]: one["value"] for one in job_of(*words)["spec"]["trainer"].get("env", ())}


def test_the_words_of_a_script_and_of_a_module(folder: Path) -> None:
    script = str(folder / "train.py")
    assert command_of("train.py", "a", "--", "--lr", "1") == ["python", script, "a", "--lr", "1"]
    assert command_of("--nodes=2", "--", "train.py", "--lr", "1") == ["python", script, "--lr", "1"]
    assert command_of("--module", "pkg.main") == ["python", "-m", "pkg.main"]
    assert command_of("-m", "pkg.main", "a", "b", "--", "--lr") == ["python", "-m", "pkg.main", "a", "b", "--lr"]
    assert command_of("-m", "pkg.main", "--", "--lr", "1") == ["python", "-m", "pkg.main", "--lr", "1"]
    (folder / "link.py").symlink_to("train.py")
    assert command_of("link.py") == ["python", str(folder / "link.py")]


@pytest.mark.parametrize("word", ["$(HOME)", "$$", "$$(HOME)", "5$", "$HOME", "$(", "a$$$(HOME)$"])
def test_a_word_reaches_the_script_as_it_was_typed(word: str) -> None:
    *_, typed = command_of("train.py", "--", word)
    assert expand(typed, {"HOME": "/"}) == word
    assert expand(environment_of("train.py", "--env", f"A={word}")["A"], {"HOME": "/"}) == word


def test_a_module_is_found_where_the_command_was_given(folder: Path) -> None:
    assert environment_of("-m", "pkg.main") == {"PYTHONPATH": str(folder)}
    mine = environment_of("-m", "pkg.main", "--env=PYTHONPATH=/libraries")
    assert mine == {"PYTHONPATH": f"{folder}{os.pathsep}/libraries"}
    # A script finds what lies beside it without that.
    assert environment_of("train.py") == {}


def test_names_are_generated_unless_one_is_given(folder: Path) -> None:
    assert job_of("train.py")["metadata"] == {"generateName": "train-", "namespace": "default"}
    assert job_of("train.py", "--job-name=slow")["metadata"] == {"name": "slow", "namespace": "default"}
    assert job_of("-m", "pkg.main")["metadata"]["generateName"] == "pkg-main-"
    odd = folder / "2 größe, ÉTÉ.py"
    odd.touch()
    assert job_of(str(odd))["metadata"]["generateName"] == "script-2-grosse--ete-"
    long = folder / f"{'a' * 60}.py"
    long.touch()
    # A pod of the job is called NAME-node-0-123-abcde.
    assert len(job_of(str(long))["metadata"]["generateName"] + "abcde-node-0-123-abcde") <= 63


def test_variables_are_those_of_the_command_line_then_of_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "of the shell")
    (folder / "one.env").write_text(
        '# a comment\n\nA=1\nexport B=two words\nC=\'single $x \\n\'\nD="tab\\tline\\nquote\\" end"\n'
        "MINE\nE=\nF = a=b\n"
    )
    (folder / "two.env").write_text("A=2\n")
    assert environment_of("train.py", "--env-file=one.env") == {
        "A": "1",
        "B": "two words",
        "C": "single $x \\n",
        "D": 'tab\tline\nquote" end',
        "MINE": "of the shell",
        "E": "",
        "F": "a=b",
    }
    found = environment_of(
        "train.py", "--env=A=4", "--env-file=one.env", "--env=A=3", "--env-file=two.env", "--env=MINE"
    )
    assert (found["A"], found["MINE"]) == ("3", "of the shell")
    assert environment_of("train.py", "--env-file=one.env", "--env-file=two.env")["A"] == "2"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--env=ABSENT"], "--env ABSENT: ABSENT is not set in this shell; set it, or write ABSENT=VALUE"),
        (["--env==1"], "'' is not the name of a variable; write NAME=VALUE or NAME"),
        (["--env=a b=1"], "'a b' is not the name of a variable"),
        (["--env-file=absent"], "--env-file: absent: No such file or directory"),
        (["--env-file=."], "--env-file: .: Is a directory"),
        (["--env-file=bad.env"], "bad.env, line 2: ABSENT is not set in this shell"),
        (["--env-file=open.env"], 'open.env, line 1: the value begins with " and does not end with it'),
        (["--env-file=binary.env"], "binary.env is not UTF-8 text"),
        (["--env=TRAINWRIGHT_OUTPUT_DIR=/x"], "set it with --output"),
    ],
)
def test_wrong_variables_are_refused(folder: Path, words: list[str], text: str) -> None:
    (folder / "bad.env").write_text("A=1\nABSENT\n")
    (folder / "open.env").write_text('A="1\n')
    (folder / "binary.env").write_bytes(b"A=\xff\n")
    with pytest.raises(WrongUseError) as raised:
        job_of("train.py", *words)
    assert text in str(raised.value)


def test_a_value_that_is_not_text_is_refused() -> None:
    with pytest.raises(WrongUseError, match="the value of the variable A is not UTF-8 text"):
        scripts.variables_of(["A"], [], {"A": "\udcff"})


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["data.csv"], "data.csv is not a Python script: its name does not end with .py"),
        (["."], ". is a folder; name a script in it, or a package with --module"),
        (["absent/train.py"], "absent/train.py: there is no such file"),
        (["trian.py"], "trian.py: there is no such file; did you mean train.py?"),
        (["train.yaml"], "a manifest is given with --file"),
        (["notebook.ipynb"], "jupyter nbconvert --to script notebook.ipynb"),
        (["-m", "pkg/main.py"], "'pkg/main.py' is not the name of a module; write it as pkg.main"),
        (["-m", "pkg..main"], "is not the name of a module"),
        (["--workdir=absent", "train.py"], "--workdir: there is no folder absent"),
        ([], "say what to run: a script, a module with --module, or a manifest with --file"),
        (["-f", "job.yaml", "train.py"], "a script, or a manifest with --file, not both"),
        (["-f", "job.yaml", "-m", "a", "--env=A=1", "--python=x", "-r", "y"], "--module and --env and --python and"),
    ],
)
def test_what_is_not_a_script_is_refused(folder: Path, words: list[str], text: str) -> None:
    for name in ("data.csv", "train.yaml", "notebook.ipynb"):
        (folder / name).touch()
    with pytest.raises(WrongUseError) as raised:
        job_of(*words)
    assert text in str(raised.value)


def test_a_script_without_an_ending_says_that_it_is_one(folder: Path) -> None:
    (folder / "train").write_text("#!/usr/bin/env python3\n")
    assert command_of("train") == ["python", str(folder / "train")]
    (folder / "train").write_text("#!/bin/sh\n")
    with pytest.raises(WrongUseError, match="train is not a Python script"):
        command_of("train")


def dry_run(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main(["local", "run", "--dry-run", "--runtime=xgboost-distributed", *words]) == 0
    return yaml.safe_load(capsys.readouterr().out)


def asked(job: Any) -> dict[str, str]:
    """The annotations of the pods."""
    found: dict[str, str] = {}
    for patch in job["spec"]["runtimePatches"]:
        for part in patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]:
            found |= part["template"]["spec"]["template"]["metadata"]["annotations"]
    of_the_trainer = ".trainwright.dev/node"
    return {name.removesuffix(of_the_trainer): value for name, value in found.items() if name.endswith(of_the_trainer)}


def test_a_dry_run_says_where_the_script_starts_and_what_it_leaves(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = str(tmp_path / "state" / "trainwright" / "runs")
    assert asked(dry_run(capsys, "train.py")) == {"workdir": str(folder), "runs": runs}
    assert asked(dry_run(capsys, "train.py", "--workdir=pod")) == {"workdir": "pod", "runs": runs}
    (folder / "pod").mkdir()
    there = asked(dry_run(capsys, "train.py", "--workdir=./pod", "--output=out"))
    assert there == {"workdir": str(folder / "pod"), "output": str(folder / "out")}
    # A cluster with a folder of its own has everything in it.
    own = asked(dry_run(capsys, "train.py", f"--dir={tmp_path / 'cluster'}"))
    assert own["runs"] == str(tmp_path / "cluster" / "runs")
    assert not (folder / "out").exists()


def test_a_manifest_that_a_dry_run_printed_says_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = dry_run(capsys, "train.py", "--workdir=pod", "--env=A=$(B)", "--nodes=3", "--", "--lr", "$$")
    (folder / "job.yaml").write_text(yaml.safe_dump(printed))
    assert main(["local", "run", "--dry-run", "--file=job.yaml"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == printed
    # Only what the command line says about the output changes it.
    assert main(["local", "run", "--dry-run", "--file=job.yaml", "--output=out"]) == 0
    changed = yaml.safe_load(capsys.readouterr().out)
    assert asked(changed) == {**asked(printed), "output": str(folder / "out")}
    (folder / "job.yaml").write_text(yaml.safe_dump(changed))
    assert main(["local", "run", "--dry-run", "--file=job.yaml", "--output=other"]) == 0
    assert asked(yaml.safe_load(capsys.readouterr().out))["output"] == str(folder / "other")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mine", "mine is not the output of a job and holds thesis; name another folder\n"),
        (
            "theirs",
            "is the output of TrainJob a and holds model; name another folder, or go on in it with --job-name=a\n",
        ),
        ("train.py", "train.py is not a folder\n"),
        ("train.py/x", "train.py is not a folder\n"),
    ],
)
def test_an_output_with_files_of_others_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, text: str
) -> None:
    for made, file in (("mine", "thesis"), ("theirs", "model")):
        (folder / made).mkdir()
        (folder / made / file).touch()
    (folder / "theirs" / ".trainwright.json").write_text('{"namespace": "default", "job": "a", "uid": "1"}')
    words = ["local", "run", "--dry-run", "--runtime=xgboost-distributed", "train.py", f"--output={name}"]
    assert main(words) == 125
    errors = capsys.readouterr().err
    assert errors.startswith("error: --output: ")
    assert errors.endswith(text)
    if name == "theirs":
        assert main([*words, "--job-name=a"]) == 0


def test_the_output_of_a_job_that_trains_in_another_cluster_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "model").touch()
    theirs = {"namespace": "default", "job": "a", "uid": "1", "cluster": str(folder / "lab")}
    (folder / "out" / ".trainwright.json").write_text(json.dumps(theirs))
    words = ["local", "run", "--dry-run", "--runtime=xgboost-distributed", "train.py", "--output=out", "--job-name=a"]
    going = {"1"}

    async def those(_: Path) -> set[str]:
        return going

    monkeypatch.setattr(local_jobs, "_going", those)
    monkeypatch.setattr(state, "running", lambda cluster: cluster.name == "lab" or None)
    assert main(words) == 125
    assert capsys.readouterr().err.endswith(
        f"out is the output of a job in the cluster {folder / 'lab'}: TrainJob a has not ended\n"
    )
    going.clear()
    assert main(words) == 0
    # Its own cluster replaces the job, or refuses the name.
    going.add("1")
    theirs["cluster"] = str(options_of(build_parser().parse_args(words)).folder)
    (folder / "out" / ".trainwright.json").write_text(json.dumps(theirs))
    assert main(words) == 0
