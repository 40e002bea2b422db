# SPDX-License-Identifier: Apache-2.0
"""Which rights the manager needs with which values: a table for the chart, which has no Python to ask.

Rights are declared beside the code that needs them (`trainwright.api.rights`). Here the manager's own function
(`assembly.permissions.rights`, which `trainwright rbac` prints) is asked with one switch of the Configuration after the
other turned on, and with each two of them. A right that appears gets the switches as its condition. A sample of all
combinations is compared at the end, so a right that needs three switches cannot be missed silently.
"""

import itertools
import json
import random
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from trainwright.api.config.v1alpha1 import Configuration
from trainwright.controller.trainer.assembly.features import GATES
from trainwright.controller.trainer.assembly.parts import rights
from trainwright.controller.trainer.assembly.settings import settings_of
from trainwright.plugins.registry import Registry
from trainwright.plugins.registry.discovery import BUILT_IN, built_in

_SCHEMA = Path(__file__).resolve().parent.parent / "api" / "config" / "v1alpha1" / "configuration.schema.json"

SECRET, LEASE = "name-of-secret", "name-of-lease"
"""Stand for names that values set."""
HOME, LEASE_HOME = "home-of-manager", "home-of-lease"
"""Stand for namespaces that values set."""
JOBS = "jobs"
"""Stands for every namespace with TrainJobs, and for objects without a namespace."""
PLACES = (JOBS, HOME, LEASE_HOME)
"""In the order in which the chart reads the table: what jobs' rights cover is not granted again."""
SAMPLE = 400
"""Combinations that are compared at the end."""

_PLUGINS = tuple(f"plugin.{name}" for name in sorted(BUILT_IN))
CLEANUP = "config.cleanup"
"""The section, which turns something on by being there."""
FIXED = ("metrics.secureServing",)
"""Fields that stay as they are by default: without it, there can be no access control of the metrics."""

Switches = frozenset[str]


@dataclass(frozen=True, slots=True, order=True)
class Right:
    place: str
    group: str
    resource: str
    names: tuple[str, ...]
    namespaced: bool
    verb: str


def table() -> dict[str, Any]:
    """What the chart's `files/rights.yaml` holds: the names of the switches, and the rules.

    Raises AssertionError: a right depends on more switches than two.
    """
    return {
        "plugins": sorted(BUILT_IN),
        "gates": {name: {"group": f"All{gate.stage}", "default": gate.default} for name, gate in GATES.items()},
        "fields": _fields(),
        "rules": _rules(),
    }


def _rules() -> list[dict[str, Any]]:
    """The rules, each with its verbs and, for each verb, the switches that must be on: one of the lists."""
    conditions = _conditions()
    _check(conditions)
    rules: dict[Right, dict[str, Any]] = {}
    for right, alternatives in sorted(conditions.items(), key=lambda one: (PLACES.index(one[0].place), one[0])):
        about = {name: value for name, value in asdict(right).items() if name != "verb"}
        rule = rules.setdefault(replace(right, verb=""), {**about, "names": list(right.names), "verbs": []})
        rule["verbs"].append({"verb": right.verb, "when": [sorted(switches) for switches in alternatives]})
    return list(rules.values())


@cache
def _fields() -> dict[str, bool]:
    """The fields of the Configuration that are true or false, by their path, and their defaults."""
    schema = json.loads(_SCHEMA.read_text())
    return {path: default for path, default in _booleans(schema, schema["$defs"], "") if path not in FIXED}


def _booleans(schema: dict[str, Any], definitions: dict[str, Any], before: str) -> Iterator[tuple[str, bool]]:
    for name, one in schema.get("properties", {}).items():
        if one.get("type") == "boolean":
            yield before + name, bool(one.get("default"))
        elif "$ref" in one:
            yield from _booleans(definitions[one["$ref"].removeprefix("#/$defs/")], definitions, f"{before}{name}.")


def _switches() -> tuple[str, ...]:
    """Names of what may turn rights on. The chart derives each of them from its values."""
    return (*_PLUGINS, *(f"gate.{name}" for name in GATES), *(f"config.{path}" for path in _fields()), CLEANUP)


def _conditions() -> dict[Right, list[Switches]]:
    found: dict[Right, list[Switches]] = {}
    for size in (0, 1, 2):
        for chosen in itertools.combinations(_switches(), size):
            switches = frozenset(chosen)
            for right in _given(switches):
                alternatives = found.setdefault(right, [])
                if not any(smaller <= switches for smaller in alternatives):
                    alternatives.append(switches)
    return found


def _check(conditions: dict[Right, list[Switches]]) -> None:
    # The same sample in each run.
    chance = random.Random(0)  # noqa: S311
    samples = (frozenset(one for one in _switches() if chance.random() < 0.5) for _ in range(SAMPLE))
    for switches in (frozenset(_switches()), *samples):
        by_table = {right for right, sets in conditions.items() if any(one <= switches for one in sets)}
        real = _given(switches)
        assert by_table == real, (
            f"with {sorted(switches)} the rights differ from the table: {sorted(by_table ^ real)}; does one of them "
            "depend on three switches?"
        )


@cache
def _given(switches: Switches) -> frozenset[Right]:
    settings = settings_of(_configuration(switches))
    registry = Registry.load(settings.plugins, built_in())
    needed = rights(settings, registry, HOME)
    places = {JOBS: needed.on_jobs, **needed.by_namespace}
    return frozenset(
        Right(place, rule.group, rule.resource, rule.names, rule.namespaced, verb)
        for place, rules in places.items()
        for rule in rules
        for verb in rule.verbs
    )


def _configuration(switches: Collection[str]) -> Configuration:
    document: dict[str, Any] = {
        "featureGates": {name: f"gate.{name}" in switches for name in GATES},
        "certManagement": {"webhookSecretName": SECRET},
        "leaderElection": {"resourceName": LEASE, "resourceNamespace": LEASE_HOME},
        "plugins": {"disabled": [name for name in sorted(BUILT_IN) if f"plugin.{name}" not in switches]},
    }
    for path in _fields():
        *sections, name = path.split(".")
        place = document
        for section in sections:
            place = place.setdefault(section, {})
        place[name] = f"config.{path}" in switches
    if CLEANUP in switches:
        document["cleanup"] = {}
    configuration = msgspec.convert(document, Configuration)
    configuration.set_defaults()
    return configuration
