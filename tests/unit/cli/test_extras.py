# SPDX-License-Identifier: Apache-2.0
"""Without the libraries of an extra: what still works, and which extra to install for what does not."""

import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.repository import ROOT
from trainwright.api import extras
from trainwright.controller.cli.main import main

SAMPLE = ROOT / "config" / "samples" / "02-torch.yaml"
PIP = f"{sys.executable} -m pip install"
LOCAL = ["cel-expr-python", "google-re2", "protobuf"]
NOTE = f"note: schemas and rules were not checked; to check them: {extras.install(LOCAL)}\n"


@pytest.fixture
def nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the wheel is installed without any extra."""
    monkeypatch.setattr(extras, "missing", lambda extra: list(extras.LIBRARIES[extra].values()))


def render(job: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(["render", "-f", str(job)])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_extras_are_those_of_the_distribution() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {name: {Requirement(line).name for line in lines} for name, lines in declared.items()} == {
        name: set(libraries.values()) for name, libraries in extras.LIBRARIES.items()
    }


def test_a_missing_library_is_found_and_a_present_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.LIBRARIES, "local", {"aiohttp": "aiohttp", "no_such_module": "no-such-thing"})
    assert extras.missing("local") == ["no-such-thing"]
    with pytest.raises(extras.MissingExtraError) as error:
        extras.require("local", "a local cluster")
    assert str(error.value) == f"a local cluster needs no-such-thing: {PIP} no-such-thing"
    extras.require("testing", "a test")


def test_what_is_missing_is_installed_by_name_since_no_index_has_trainwright() -> None:
    command = shlex.split(extras.install(LOCAL))
    assert command[:4] == [sys.executable, "-m", "pip", "install"]
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["local"]
    # With the bounds of the distribution: a later major version would be refused at the next start.
    assert [Requirement(one) for one in command[4:]] == [Requirement(one) for one in declared]


@pytest.mark.usefixtures("nothing_more")
def test_render_works_and_says_what_it_did_not_check(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = render(SAMPLE, capsys)
    assert (code, err) == (0, NOTE)
    assert "PET_MASTER_ADDR" in out


def test_render_says_nothing_more_where_it_checked(capsys: pytest.CaptureFixture[str]) -> None:
    unchecked = render(SAMPLE, capsys)
    assert (unchecked[0], unchecked[2]) == (0, "")


@pytest.mark.usefixtures("nothing_more")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("numNodes: 2", "numNodes: two"), r":\d+: TrainJob torch: spec.trainer.numNodes: Expected `int.*`, got `str`"),
        (("numNodes: 2", "numNode: 2"), r":\d+: TrainJob torch: spec.trainer.numNode: .*numNodes"),
        (("  name: torch\n", "  labels: {}\n"), r":\d+: TrainJob: metadata.name: Required value"),
    ],
)
def test_render_still_finds_wrong_types_unknown_fields_and_no_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: tuple[str, str], said: str
) -> None:
    text = SAMPLE.read_text()
    assert change[0] in text
    job = tmp_path / "job.yaml"
    job.write_text(text.replace(*change, 1))
    code, out, err = render(job, capsys)
    assert (code, out) == (1, "")
    assert re.search(said, err), err


@pytest.mark.usefixtures("nothing_more")
def test_a_local_cluster_needs_its_extra(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = f"error: a local cluster needs cel-expr-python and google-re2 and protobuf: {extras.install(LOCAL)}\n"
    assert main(["local", "up", f"--dir={tmp_path / 'cluster'}"]) == 1
    assert capsys.readouterr().err == said
    # Other codes are those of the job.
    assert main(["local", "run", "--file", str(SAMPLE), f"--dir={tmp_path / 'cluster'}"]) == 125
    assert capsys.readouterr().err == said
    assert not (tmp_path / "cluster").exists()
