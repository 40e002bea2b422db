# SPDX-License-Identifier: Apache-2.0
"""The part behind the feature gate Explain: keeps the evidence of failures, and shows in conditions why jobs wait."""

from typing import cast

from trainwright.controller.trainer.assembly.features import RECOVERY
from trainwright.controller.trainer.assembly.parts import Assembly, Grants
from trainwright.controller.trainer.failures.recorder import FailureRecorder
from trainwright.controller.trainer.job.pods import declare_pods
from trainwright.controller.trainer.why.waiting import WaitingConditions
from trainwright.plugins.contract import Explains


def rights(grants: Grants) -> None:
    grants.on_jobs(*FailureRecorder.RULES, *WaitingConditions.RULES)


def declare(assembly: Assembly) -> None:
    if RECOVERY not in assembly.settings.features:  # its part keeps the evidence then
        declare_pods(assembly.manager.cache)
        FailureRecorder(assembly.manager, assembly.events, assembly.records)
    explaining = [cast("Explains", entry.plugin) for entry in assembly.pipeline.registry.having("explain")]
    WaitingConditions(assembly.manager, assembly.jobsets, explaining, assembly.records, assembly.findings)
