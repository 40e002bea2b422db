# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/plugins.md run, and the page lists what there is."""

import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from tests.pages import Block, blocks_of
from tests.repository import ROOT
from tests.unit.trainer.explain.world import NOW, World, condition
from trainwright.api.trainer.v1alpha1 import TrainingRuntime
from trainwright.controller.trainer.why import GivenObjects, explain
from trainwright.plugins.contract import Explains, JobState
from trainwright.plugins.contract.points import EXTENSION_POINTS
from trainwright.plugins.registry import Registry
from trainwright.plugins.testing import run, runtime, train_job, transition

PAGE = ROOT / "docs" / "plugins.md"


PYTHON = [block for block in blocks_of(PAGE) if block.language == "python"]


@pytest.mark.parametrize("block", [pytest.param(block, id=block.where) for block in PYTHON])
def test_each_example_runs_as_it_stands(block: Block, tmp_path: Path) -> None:
    """In a fresh folder with the files of the page: no name is missing."""
    for one in blocks_of(PAGE):
        if one.title:
            (tmp_path / one.title).write_text(one.text)
    done = subprocess.run(
        [sys.executable, "-"], input=block.text, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_complete_plugin_is_short() -> None:
    (plugin,) = [block.text for block in PYTHON if block.title == "acme_ray.py"]
    assert len(plugin.split("\n\n\n")[1].strip().splitlines()) <= 30


def test_the_gang_scheduler_runs() -> None:
    (text,) = [
        block.text for block in blocks_of(PAGE) if block.language == "python" and "class AcmePlugin" in block.text
    ]
    names: dict[str, Any] = {"__name__": "example"}
    exec(text, names)

    result = run(names["AcmePlugin"](), job=train_job("trainer: {numNodes: 2}"), runtime=queued("fast"))
    assert result.object("Gang")["spec"] == {"minMember": 1, "minResources": {}, "queue": "fast"}
    assert result.replicated_job()["template"]["spec"]["template"]["metadata"]["labels"] == {"acme.com/gang": "job"}
    assert [c.resource.kind for c in result.rendering.components] == ["Gang", "JobSet"]
    assert [c.resource.kind for c in run(names["AcmePlugin"](), runtime=queued(None)).rendering.components] == [
        "JobSet"
    ]


def queued(name: str | None) -> TrainingRuntime:
    return runtime(metadata={"labels": {"acme.com/gang-queue": name} if name else {}})


def test_every_extension_point_is_listed() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [hook for hook in EXTENSION_POINTS if f"`{hook}(" not in page] == []


def test_the_plugin_that_follows_states_works() -> None:
    (text,) = [block.text for block in blocks_of(PAGE) if "class EndPlugin" in block.text]
    sent: list[str] = []
    names: dict[str, Any] = {"__name__": "example", "send": sent.append}
    exec(text, names)
    transition(names["EndPlugin"](), JobState.PENDING, JobState.RUNNING)
    transition(names["EndPlugin"](), JobState.RUNNING, JobState.COMPLETE)
    assert sent == ["team/job: Running -> Complete"]


def test_the_plugin_that_explains_jobs_works() -> None:
    (text,) = [block.text for block in blocks_of(PAGE) if "class GangExplainer" in block.text]
    names: dict[str, Any] = {"__name__": "example"}
    exec(text, names)

    world = World()
    world.add(
        "acme.com/v1", "Gang", "j", owner=world.job, status={"conditions": [condition("Refused", "Size", "9 nodes")]}
    )
    picture = GivenObjects(world.objects, unserved=world.unserved).picture(world.job, NOW)
    explainer = Registry.of(names["GangExplainer"]()).having("explain")[0].plugin
    found = explain(picture, (cast("Explains", explainer),))
    assert found.cause.message == "the Acme scheduler refuses the gang: 9 nodes; ask for fewer nodes"
    assert str(found.cause.about) == "Gang n/j"
