# SPDX-License-Identifier: Apache-2.0
"""The part behind the feature gate Recovery: judges the attempts of jobs, and keeps the record of failures."""

from trainwright.controller.trainer.assembly.parts import Assembly, Grants
from trainwright.controller.trainer.job.pods import declare_pods
from trainwright.controller.trainer.recovery.recorder import RecoveryRecorder


def rights(grants: Grants) -> None:
    grants.on_jobs(*RecoveryRecorder.RULES)


def declare(assembly: Assembly) -> None:
    declare_pods(assembly.manager.cache)
    assert assembly.recoveries is not None  # or the part is off
    RecoveryRecorder(assembly.manager, assembly.events, assembly.records, assembly.recoveries)
