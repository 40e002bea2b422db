# SPDX-License-Identifier: Apache-2.0
"""Feature gates: features that the Configuration or `--feature-gates` turns on and off by name."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from trainwright.controller.runtime import ConfigurationError


class Maturity(StrEnum):
    """The maturity of a feature. Alpha features are off by default."""

    ALPHA = "Alpha"
    BETA = "Beta"


@dataclass(frozen=True, slots=True)
class Gate:
    name: str
    stage: Maturity = Maturity.ALPHA

    @property
    def default(self) -> bool:
        return self.stage is not Maturity.ALPHA


CREATED_CONDITION = Gate("CreatedCondition")
"""Writes the condition Created once all objects of a TrainJob are applied."""
TRAIN_JOB_STATUS = Gate("TrainJobStatus")
"""Training processes report their progress to a server of the manager."""
EXPLAIN = Gate("Explain")
"""Shows why TrainJobs wait in a condition, and keeps the evidence of failures."""
PROGRESS_PULL = Gate("ProgressPull")
"""The manager reads the progress of TrainJobs that ask for it from a file in the pod of rank 0."""
RECOVERY = Gate("Recovery")
"""All ranks of a TrainJob that asks for it restart together when one fails, for a number of retries."""
GATES = {gate.name: gate for gate in (CREATED_CONDITION, TRAIN_JOB_STATUS, PROGRESS_PULL, EXPLAIN, RECOVERY)}

_GROUPS = {f"All{stage}": stage for stage in Maturity}
"""Names that stand for all gates of a stage. A gate's own name takes precedence."""


Features: TypeAlias = frozenset[Gate]
"""The gates that are on."""


def features_of(wanted: Mapping[str, bool]) -> Features:
    """The features that are on. Raises ConfigurationError: unknown names, one line for each."""
    known = ", ".join(sorted({*GATES, *_GROUPS}))
    problems = [
        f"{name}: unknown feature gate; known are {known}" for name in wanted.keys() - GATES.keys() - _GROUPS.keys()
    ]
    switches = {_GROUPS[name]: on for name, on in wanted.items() if name in _GROUPS}
    on = {gate for gate in GATES.values() if wanted.get(gate.name, switches.get(gate.stage, gate.default))}
    if problems:
        raise ConfigurationError("\n".join(sorted(problems)))
    return frozenset(on)
