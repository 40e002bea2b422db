# SPDX-License-Identifier: Apache-2.0
"""Counts the defects that TrainJobs meet: code of a plugin or of the manager raised an error that is not declared.

A defect costs one job a refusal or the condition `Blocked`, and no reconcile or webhook call fails because of it. The
alert TrainwrightDefect therefore needs a counter of its own.
"""

from enum import StrEnum
from typing import TYPE_CHECKING

from trainwright.plugins.contract import FactUnavailable, PipelineError, Refusal

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


class During(StrEnum):
    ADMISSION = "admission"
    RECONCILE = "reconcile"


class Defects:
    """The counter of one process; registers itself."""

    def __init__(self, registry: "CollectorRegistry") -> None:
        # Imported here: `trainwright render` needs `is_defect` alone.
        from trainwright.controller.runtime import LabelledCounter  # noqa: PLC0415

        text = "Defects of plugins or of the manager that TrainJobs met."
        self._met = LabelledCounter("trainer_trainjob_defects_total", text, registry, during=During)

    def met(self, during: During) -> None:
        self._met.inc(during)


def is_defect(error: BaseException) -> bool:
    """Whether an error of the pipeline is a defect of a plugin, and not a refusal or a fact that could not be read."""
    if isinstance(error, FactUnavailable) and error.__cause__ is not None:
        # A build that depends on facts which nothing watches: it failed, and it is tried again for their sake.
        error = error.__cause__
    return isinstance(error, PipelineError) and not isinstance(error, Refusal)
