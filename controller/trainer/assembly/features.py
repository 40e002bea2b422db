# SPDX-License-Identifier: Apache-2.0
"""Feature gates, which the Configuration or `--feature-gates` turns on and off, and the plugins that run with them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

import msgspec

from trainwright.api.config.v1alpha1 import Plugins, Recovery
from trainwright.api.trainer.v1alpha1.recovery import MOST_RETRIES, Allowed
from trainwright.controller.runtime import ConfigurationError
from trainwright.plugins.registry import Selection


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
OPTIMIZATION_JOB = Gate("OptimizationJob")
"""Runs the trials of OptimizationJobs. Their values are metrics that progress reports bring."""
GATES = {
    gate.name: gate
    for gate in (CREATED_CONDITION, TRAIN_JOB_STATUS, PROGRESS_PULL, EXPLAIN, RECOVERY, OPTIMIZATION_JOB)
}

_GROUPS = {f"All{stage}": stage for stage in Maturity}
"""Names that stand for all gates of a stage. A gate's own name takes precedence."""


Features: TypeAlias = frozenset[Gate]
"""The gates that are on."""


def features_of(wanted: Mapping[str, bool]) -> Features:
    """The features that are on. Raises ConfigurationError: unknown names, or one without what it needs."""
    known = ", ".join(sorted({*GATES, *_GROUPS}))
    problems = [
        f"{name}: unknown feature gate; known are {known}" for name in wanted.keys() - GATES.keys() - _GROUPS.keys()
    ]
    switches = {_GROUPS[name]: on for name, on in wanted.items() if name in _GROUPS}
    on = {gate for gate in GATES.values() if wanted.get(gate.name, switches.get(gate.stage, gate.default))}
    if OPTIMIZATION_JOB in on and not on & {TRAIN_JOB_STATUS, PROGRESS_PULL}:
        problems.append(
            "OptimizationJob: needs the feature gate TrainJobStatus or ProgressPull, because the value of a trial is a "
            "metric that its TrainJob reports; turn one of them on"
        )
    if problems:
        raise ConfigurationError("\n".join(sorted(problems)))
    return frozenset(on)


RECOVERY_PLUGIN = "Recovery"
"""Its settings limit what jobs may ask for."""
_MOST_OF_A_CAUSE = 1000
GATED = {"ProgressFile": PROGRESS_PULL, RECOVERY_PLUGIN: RECOVERY, "TrainJobStatus": TRAIN_JOB_STATUS}
"""Plugins that are off by default and that a feature gate turns on, by name."""


def selection_of(section: Plugins | None, recovery: Recovery | None, features: Features) -> Selection:
    """The selection of the Configuration's section `plugins`, with the plugins of the features that are on.

    `recovery` is the section of that name, which holds the settings of the plugin Recovery.

    Raises:
        ConfigurationError: the section enables a plugin whose feature gate is off, or has settings for Recovery; or
            the section `recovery` has a value that cannot take effect.
    """
    selection = Selection.of(section)
    wanted = selection.enabled or frozenset()
    problems = [
        f"plugins.enabled: {name}: the feature gate {gate.name} turns this plugin on; set featureGates.{gate.name} to "
        "true"
        for name, gate in GATED.items()
        if name in wanted and gate not in features
    ]
    if RECOVERY_PLUGIN in selection.settings:
        problems.append(f"plugins.settings.{RECOVERY_PLUGIN}: has no effect; use the section recovery")
    settings, unusable = _recovery(recovery)
    problems += unusable
    if problems:
        raise ConfigurationError("\n".join(problems))
    enabled = wanted | {name for name, gate in GATED.items() if gate in features}
    return replace(selection, enabled=enabled, settings={**selection.settings, RECOVERY_PLUGIN: settings})


def _recovery(section: Recovery | None) -> tuple[Recovery, list[str]]:
    full = section.deepcopy() if section is not None else Recovery()
    full.set_defaults()
    allowed, problems = Allowed.of(full), []
    limits = {
        "maxRetries": MOST_RETRIES,
        "defaultRetries": allowed.max_retries if allowed.max_retries >= 0 else MOST_RETRIES,
    }
    for name, value in msgspec.to_builtins(full).items():
        most = limits.get(name, _MOST_OF_A_CAUSE)
        if not 0 <= value <= most:
            which = ", which is recovery.maxRetries" if name == "defaultRetries" else ""
            problems.append(f"recovery.{name}: {value} is out of range; use 0 to {most}{which}")
    return full, problems
