# SPDX-License-Identifier: Apache-2.0
"""The part behind the gate OptimizationJob: the operator of searches, in the manager of the trainer."""

from trainwright.controller.optimization.operator import Searches
from trainwright.controller.trainer.assembly.features import OPTIMIZATION_JOB
from trainwright.controller.trainer.assembly.part import Assembly, Part, gate


def _declare(assembly: Assembly) -> None:
    assembly.handlers.update(Searches().app.join(assembly.manager))


PARTS = (
    Part(name="optimization", declare=_declare, rights=lambda _: Searches().app.rules(), is_on=gate(OPTIMIZATION_JOB)),
)
