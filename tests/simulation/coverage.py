# SPDX-License-Identifier: Apache-2.0
"""Which fault and which action met jobs in which state: what no world has met is not tested."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields

from tests.simulation.rules import JOBS, true_conditions
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.store.objects import StoreChange
from trainwright.controller.simulation.network import FaultProfile
from trainwright.controller.simulation.plan import Step
from trainwright.controller.simulation.rules import Violation, WorldRule
from trainwright.controller.simulation.simulate import MACHINE_ACTIONS
from trainwright.controller.simulation.world import World

STATES = ("absent", "new", "running", "suspended", "blocked", "stuck", "restarting", "waiting", "over", "deleted")
FAULTS = {
    **dict.fromkeys(
        (one.name for one in fields(FaultProfile) if "latency" not in one.name and "seconds" not in one.name), ""
    ),
    "error_500": "500-after",
    "conflict": "409",
    "too_many": "429",
    "unauthorized": "401",
    "cut_watch": "cut",
    "slow_frame": "slow",
}
_PREFIX = "meets: "


class Coverage(WorldRule):
    """Counts the meetings. It is never broken."""

    name = "coverage"

    def __init__(self, world: World, say: Callable[[Violation], None]) -> None:
        super().__init__(world, say)
        self._states: dict[str, str] = {}

    def changed(self, change: StoreChange) -> None:
        """Note the state of a job."""
        if change.collection == JOBS:
            if change.type == "DELETED":
                self._states.pop(change.name.name, None)
            else:
                self._states[change.name.name] = state_of(change.object.document())

    def faulted(self, fault: str, path: str) -> None:
        """Of the job that the path is of, or else of all."""
        named = [name for part in path.split("/") for name in (part, part.partition("-")[0]) if name in self._states]
        self._meet(fault, [self._states[name] for name in named] or self._states.values())

    def stepped(self, step: Step) -> None:
        """Of the job that the step is on, or of all if it is about a machine."""
        if step.what in MACHINE_ACTIONS:
            self._meet(step.what, self._states.values())
        else:
            self._meet(step.what, [self._states.get(step.on.partition(":")[0], "absent")])

    def _meet(self, what: str, states: Iterable[str]) -> None:
        for state in dict.fromkeys(states):
            self.world.trace.counts[f"{_PREFIX}{what} {state}"] += 1


def state_of(job: Document) -> str:
    """One of STATES."""
    held = true_conditions(job)
    if job["metadata"].get("deletionTimestamp"):
        return "deleted"
    if held.keys() & {"Complete", "Failed"}:
        return "over"
    shown = next((kind for kind in ("Blocked", "Suspended", "Stuck", "Restarting", "Waiting") if kind in held), "")
    if shown:
        return shown.lower()
    return "running" if (job.get("status") or {}).get("jobsStatus") else "new"


def table(counts: Counter[str], actions: Iterable[str]) -> Iterator[str]:
    """How often each fault and each action met each state.

    Args:
        counts: of all worlds together.
        actions: of users.
    """
    yield f"{'':20}" + "".join(f"{state:>11}" for state in STATES)
    faults = [known or name.replace("_", "-") for name, known in FAULTS.items()]
    for what in (*faults, *MACHINE_ACTIONS, *actions):
        met = [counts[f"{_PREFIX}{what} {state}"] for state in STATES]
        yield f"{what:20}" + "".join(f"{count or '-':>11}" for count in met)


def never_met(counts: Counter[str], actions: Iterable[str]) -> list[str]:
    """The faults and actions that no job has met in any state."""
    faults = [known or name.replace("_", "-") for name, known in FAULTS.items()]
    known = (*faults, *MACHINE_ACTIONS, *actions)
    return [what for what in known if not any(counts[f"{_PREFIX}{what} {state}"] for state in STATES)]
