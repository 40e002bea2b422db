# SPDX-License-Identifier: Apache-2.0
"""The parts behind the gates Recovery and Explain: the record of failures, its judge, and why jobs wait."""

from collections.abc import Iterable
from typing import cast

from trainwright.api.rights import Rule
from trainwright.controller.trainer.assembly.features import EXPLAIN, RECOVERY
from trainwright.controller.trainer.assembly.part import Assembly, Grants, Part, gate
from trainwright.controller.trainer.failures.recorder import FailureRecorder
from trainwright.controller.trainer.job.pods import declare_pods
from trainwright.controller.trainer.recovery.recorder import RecoveryRecorder
from trainwright.controller.trainer.why.waiting import WaitingConditions
from trainwright.plugins.contract import Explains


def _declare_recovery(assembly: Assembly) -> None:
    declare_pods(assembly.manager.cache)
    assert assembly.recoveries is not None  # or the part is off
    RecoveryRecorder(assembly.manager, assembly.events, assembly.records, assembly.recoveries)


def _rights_to_explain(_: Grants) -> Iterable[Rule]:
    return (*FailureRecorder.USES.rules(), *WaitingConditions.USES.rules())


def _declare_explain(assembly: Assembly) -> None:
    if RECOVERY not in assembly.settings.features:  # its part keeps the evidence then
        declare_pods(assembly.manager.cache)
        FailureRecorder(assembly.manager, assembly.events, assembly.records).declare(assembly.manager)
    explaining = [cast("Explains", entry.plugin) for entry in assembly.pipeline.registry.having("explain")]
    WaitingConditions(assembly.manager, assembly.jobsets, explaining, assembly.records, assembly.findings)


PARTS = (
    Part(
        name="recovery", declare=_declare_recovery, rights=lambda _: RecoveryRecorder.USES.rules(), is_on=gate(RECOVERY)
    ),
    Part(name="explain", declare=_declare_explain, rights=_rights_to_explain, is_on=gate(EXPLAIN)),
)
