# SPDX-License-Identifier: Apache-2.0
"""Simulated worlds whose jobs recover: under all faults, the record never says less than Kubernetes has counted."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.simulation import scenario
from tests.simulation.rules import JOBS, JOBSETS, is_on, owner_of, true_conditions
from tests.simulation.scenario import TrainJobs
from trainwright.api.objects import Document, annotations_of
from trainwright.controller.local.apiserver.store.changes import StoreChange
from trainwright.controller.local.testing.simulation.plan import Plan
from trainwright.controller.local.testing.simulation.rules import WorldRule
from trainwright.controller.local.testing.simulation.simulate import Outcome
from trainwright.controller.trainer.recovery.summary import Summary, summary_of
from trainwright.controller.trainer.recovery.verdict import MOST_ATTEMPTS

Simulated = Callable[[Any, str | Plan], Outcome]
RETRIES = 2
GATE = "Recovery"
PLAIN = scenario.runtime
SEEDS = (2003, 2005, 2006, 2013)
"""Most of them found what is mended now."""
_WORLDS = 2
"""Of a test."""


class RecordIsTrue(WorldRule):
    """What the record says of attempts, beside what the JobSet counts."""

    name = "recovery-record"

    def changed(self, change: StoreChange) -> None:
        """No job makes more attempts than its budgets pay for, and none is over by its record alone for long."""
        if change.collection != "configmaps" or not change.name.name.endswith("-failures"):
            return
        found = summary_of(change.object.document().get("data"))
        if found is None or change.type == "DELETED":
            return
        name, counts = change.name.name, found.counts
        if counts.row.get("retries", 0) > RETRIES + 1:
            self.say(f"{name}: {counts.row} failures in a row with {RETRIES} retries")
        if counts.attempts > MOST_ATTEMPTS:
            self.say(f"{name}: {counts.attempts} attempts")
        if sum(counts.causes.values()) < found.judged:
            self.say(f"{name}: {found.judged} attempts are judged, and {counts.causes} are counted")

    def at_rest(self) -> None:
        """All attempts that have ended are on record."""
        if not is_on(GATE, self.world.notes, self.world.version):
            return
        records = {one["metadata"]["name"]: one for one in self.world.stored("configmaps")}
        jobs = {one["metadata"]["uid"]: one for one in self.world.stored(JOBS)}
        for jobset in self.world.stored(JOBSETS):
            name, restarts = jobset["metadata"]["name"], (jobset.get("status") or {}).get("restarts") or 0
            job = jobs.get(owner_of(jobset))
            if job is None or true_conditions(job).keys() & {"Complete", "Failed", "Blocked"}:
                continue
            known = summary_of((records.get(f"{name}-failures") or {}).get("data")) or Summary()
            if known.judged < base_of(jobset) + restarts:
                self.say(f"JobSet {name} was restarted {restarts} times, its record has {known.judged} attempts")


class Recovering(TrainJobs):
    """The scenario of this project, with runtimes whose jobs recover."""

    def __init__(self) -> None:
        super().__init__()
        self.rules = (*self.rules, RecordIsTrue)

    def plan(self, seed: str) -> Plan:
        """As any other; some of its managers have the gate."""
        plan = super().plan(seed)
        chance = random.Random(f"{seed}/recovery")
        return replace(plan, options={**plan.options, GATE: True, "Explain": chance.random() < 0.5})


def recovering(name: str, **more: Any) -> Document:
    """A runtime whose jobs recover."""
    made = PLAIN(name, **more)
    marks = {"trainwright.dev/recovery": "gang", "trainwright.dev/retries": str(RETRIES)}
    return {**made, "metadata": {**made["metadata"], "annotations": marks}}


def base_of(jobset: Document) -> int:
    for one in jobset["spec"]["replicatedJobs"]:
        metadata = {"metadata": one["template"]["spec"]["template"].get("metadata") or {}}
        return int(annotations_of(metadata).get("trainwright.dev/attempt-base", "0"))
    return 0


@pytest.mark.parametrize("first", SEEDS[::_WORLDS])
def test_worlds_whose_jobs_recover(simulated: Simulated, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenario, "runtime", recovering)
    monkeypatch.setattr(scenario, "GATES", (*scenario.GATES, GATE))
    at = SEEDS.index(first)
    for seed in SEEDS[at : at + _WORLDS]:
        simulated(Recovering(), str(seed))
