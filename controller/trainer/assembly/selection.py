# SPDX-License-Identifier: Apache-2.0
"""Which plugins run: those that the Configuration selects, and those that feature gates turn on."""

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from trainwright.api.config.v1alpha1 import Plugins, Recovery
from trainwright.api.trainer.v1alpha1.recovery import SETTINGS, Allowed
from trainwright.controller.runtime import ConfigurationError
from trainwright.controller.trainer.assembly.features import PROGRESS_PULL, RECOVERY, TRAIN_JOB_STATUS, Features
from trainwright.plugins.registry import Selection

_RECOVERY = "Recovery"

GATED = {"ProgressFile": PROGRESS_PULL, "Recovery": RECOVERY, "TrainJobStatus": TRAIN_JOB_STATUS}
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
    if _RECOVERY in selection.settings:
        problems.append(f"plugins.settings.{_RECOVERY}: has no effect; use the section recovery")
    settings, unusable = _recovery(recovery)
    problems += unusable
    if problems:
        raise ConfigurationError("\n".join(problems))
    enabled = wanted | {name for name, gate in GATED.items() if gate in features}
    return replace(selection, enabled=enabled, settings={**selection.settings, _RECOVERY: settings})


def _recovery(section: Recovery | None) -> tuple[Mapping[str, int], list[str]]:
    """The settings of the plugin, and what cannot take effect."""
    full = section.deepcopy() if section is not None else Recovery()
    full.set_defaults()
    given: Mapping[str, int] = msgspec.to_builtins(full)
    problems = []
    for budget, (default, most) in SETTINGS.items():
        highest = getattr(Allowed(), budget).most
        if not 0 <= given[most] <= highest:
            problems.append(f"recovery.{most}: {given[most]} is out of range; use 0 to {highest}")
        elif not 0 <= given[default] <= given[most]:
            text = f"recovery.{default}: {given[default]} is out of range"
            problems.append(f"{text}; use 0 to {given[most]}, which is recovery.{most}")
    return given, problems
