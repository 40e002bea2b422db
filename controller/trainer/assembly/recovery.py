# SPDX-License-Identifier: Apache-2.0
"""The part behind the feature gate Recovery: judges the attempts of jobs, and keeps the record of failures."""

from trainwright.api.trainer.v1alpha1.recovery import Retries
from trainwright.controller.trainer.assembly.parts import Assembly
from trainwright.controller.trainer.assembly.permissions import Grants
from trainwright.controller.trainer.job.pods import declare_pods
from trainwright.controller.trainer.recovery.recorder import RecoveryRecorder
from trainwright.controller.trainer.recovery.recoveries import Recoveries

_PLUGIN = "Recovery"


def rights(grants: Grants) -> None:
    grants.on_jobs(*RecoveryRecorder.RULES)


def declare(assembly: Assembly) -> None:
    declare_pods(assembly.manager.cache)
    assert assembly.recoveries is not None  # or the part is off
    RecoveryRecorder(assembly.manager, assembly.events, assembly.records, assembly.recoveries)


def make_recoveries(assembly: Assembly) -> Recoveries:
    """What is known of the attempts of all jobs."""
    given = assembly.settings.plugins.settings[_PLUGIN]
    allowed = Retries(given["defaultRetries"], given["maxRetries"])
    return Recoveries(assembly.manager, assembly.snapshots, assembly.records, allowed)
