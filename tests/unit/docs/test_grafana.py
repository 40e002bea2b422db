# SPDX-License-Identifier: Apache-2.0
"""The Grafana dashboard: it asks for metrics that there are, and has a place for each panel."""

import json
from itertools import combinations
from typing import Any

import promql_parser
import pytest

from tests.repository import ROOT
from tests.unit.docs.test_alerts import selectors, types

FILE = ROOT / "config" / "grafana" / "trainwright.json"
DASHBOARD: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def parsed(panel: dict[str, Any]) -> Any:
    """Its only expression; Grafana fills in the variables."""
    (target,) = panel["targets"]
    return promql_parser.parse(target["expr"].replace("$__rate_interval", "5m").replace("$job", ".+"))


@pytest.mark.parametrize("panel", [pytest.param(panel, id=panel["title"]) for panel in PANELS])
def test_a_panel_asks_for_metrics_that_there_are(panel: dict[str, Any]) -> None:
    known = types()
    served = {name if kind != "histogram" else f"{name}_bucket" for name, kind in known.items()}
    names, text = selectors(parsed(panel)), panel["targets"][0]["expr"]
    assert names
    assert set(names) <= served
    assert text.count('job=~"$job"') == len(names)
    for name in names:
        grows = known.get(name) == "counter" or name.endswith("_bucket")
        assert (f"rate({name}{{" in text) == grows, name
    assert all(name.removesuffix("_bucket") in panel["description"] for name in names)


def test_the_panels_do_not_overlap() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(numbers)) == len(numbers)


def test_every_data_source_is_the_one_that_the_reader_chooses() -> None:
    sources = {json.dumps(panel["datasource"], sort_keys=True) for panel in PANELS}
    assert sources == {'{"type": "prometheus", "uid": "${datasource}"}'}
    assert [variable["name"] for variable in DASHBOARD["templating"]["list"]] == ["datasource", "job"]
