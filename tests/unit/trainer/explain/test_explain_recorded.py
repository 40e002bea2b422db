# SPDX-License-Identifier: Apache-2.0
"""The sentences of seeded faults over pictures that were recorded on the real control plane.

`python -m tests.e2e.faults.record` records them.
"""

import json
from pathlib import Path

import pytest

from tests.unit.trainer.explain.world import PLUGINS
from trainwright.api.times import parse
from trainwright.controller.trainer.why import GivenObjects, explain

PICTURES = sorted((Path(__file__).parent / "recorded").glob("*.json"))


def test_there_are_pictures() -> None:
    assert len(PICTURES) >= 29


@pytest.mark.parametrize("file", [pytest.param(file, id=file.stem) for file in PICTURES])
def test_a_recorded_picture_says_what_it_said(file: Path) -> None:
    recorded = json.loads(file.read_text(encoding="utf-8"))
    job, *_ = recorded["objects"]
    picture = GivenObjects(recorded["objects"], unserved=recorded["unserved"]).picture(job, parse(recorded["now"]))
    found = explain(picture, PLUGINS)
    assert (found.cause.reason, found.cause.message) == (recorded["reason"], recorded["sentence"])
    assert found.outcome == recorded["outcome"]
