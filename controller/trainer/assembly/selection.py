# SPDX-License-Identifier: Apache-2.0
"""Which plugins run: those that the Configuration selects, and those that feature gates turn on."""

from dataclasses import replace

from trainwright.api.config.v1alpha1 import Plugins
from trainwright.controller.runtime.errors import ConfigurationError
from trainwright.controller.trainer.assembly.features import PROGRESS_PULL, TRAIN_JOB_STATUS, Features
from trainwright.plugins.registry import Selection

GATED = {"ProgressFile": PROGRESS_PULL, "TrainJobStatus": TRAIN_JOB_STATUS}
"""Plugins that are off by default and that a feature gate turns on, by name."""


def selection_of(section: Plugins | None, features: Features) -> Selection:
    """The selection of the Configuration's section `plugins`, with the plugins of the features that are on.

    Raises:
        ConfigurationError: the section enables a plugin whose feature gate is off.
    """
    selection = Selection.of(section)
    wanted = selection.enabled or frozenset()
    problems = [
        f"{name}: the feature gate {gate.name} turns this plugin on; set featureGates.{gate.name} to true"
        for name, gate in GATED.items()
        if name in wanted and not features.enabled(gate)
    ]
    if problems:
        raise ConfigurationError("\n".join(problems))
    return replace(selection, enabled=wanted | {name for name, gate in GATED.items() if features.enabled(gate)})
