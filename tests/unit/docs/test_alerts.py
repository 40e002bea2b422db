# SPDX-License-Identifier: Apache-2.0
"""The alert rules: PromQL that Prometheus reads, on metrics that the manager has."""

import re
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client import CollectorRegistry

from tests.repository import ROOT
from trainwright.controller.trainer.job.obstacles import Defects

FILE = ROOT / "config" / "prometheus" / "rules.yaml"
RULES: list[dict[str, Any]] = [rule for group in yaml.safe_load(FILE.read_text())["groups"] for rule in group["rules"]]


def types() -> dict[str, str]:
    """Type of each metric, by name. A test of the manager compares this page with what it serves."""
    page = (ROOT / "docs" / "metrics.md").read_text()
    return dict(re.findall(r"^\| `(\w+)` \| (counter|gauge|histogram) \|", page, re.MULTILINE))


def selectors(node: Any) -> list[str]:
    """Names of the metrics in an expression."""
    if isinstance(node, promql_parser.VectorSelector):
        return [node.name or ""]
    if isinstance(node, promql_parser.MatrixSelector):
        return [node.vector_selector.name or ""]
    if isinstance(node, promql_parser.Call):
        return [name for argument in node.args for name in selectors(argument)]
    if isinstance(node, promql_parser.BinaryExpr):
        return [*selectors(node.lhs), *selectors(node.rhs)]
    return selectors(node.expr) if isinstance(node, promql_parser.AggregateExpr | promql_parser.ParenExpr) else []


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule["alert"]) for rule in RULES])
def test_a_rule_asks_for_metrics_that_there_are(rule: dict[str, Any]) -> None:
    known = types()
    served = {name if kind != "histogram" else f"{name}_bucket" for name, kind in known.items()}
    names = selectors(promql_parser.parse(rule["expr"]))
    assert names
    assert set(names) <= served
    assert rule["expr"].count('job="kubeflow-trainer-controller-manager"') == len(names)
    for name in names:
        # What only grows says nothing by itself.
        grows = known.get(name) == "counter" or name.endswith("_bucket")
        assert bool(re.search(rf"(rate|increase)\(\s*{name}\b", rule["expr"])) == grows, name


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule["alert"]) for rule in RULES])
def test_a_rule_says_how_bad_it_is_and_what_it_means(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert set(rule["annotations"]) == {"summary", "description"}


def test_the_page_says_what_to_do_about_each() -> None:
    page = (ROOT / "docs" / "admins" / "alerts.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| .{10,} \|$", page, re.MULTILINE)
    assert rows == [(rule["alert"], rule["labels"]["severity"]) for rule in RULES]


def test_the_alert_on_defects_asks_for_those_that_block_a_job() -> None:
    (rule,) = [rule for rule in RULES if rule["alert"] == "TrainwrightDefect"]
    registry = CollectorRegistry()
    Defects(registry)
    (counted,) = {sample.name for family in registry.collect() for sample in family.samples} & types().keys()
    assert counted in selectors(promql_parser.parse(rule["expr"]))


def test_what_is_wrong_is_noticed() -> None:
    with pytest.raises(ValueError, match="promql"):
        promql_parser.parse("rate(x_total) >")
    assert selectors(promql_parser.parse("sum(rate(a_total[5m])) / (b + max(c)) > 1")) == ["a_total", "b", "c"]
