# SPDX-License-Identifier: Apache-2.0
"""The part that follows the states of jobs, and tells metrics, events and plugins of each change."""

from trainwright.controller.runtime import Group
from trainwright.controller.trainer.assembly.parts import Assembly
from trainwright.controller.trainer.job.events import PluginTransitions
from trainwright.controller.trainer.job.metrics import JobMetrics
from trainwright.controller.trainer.job.state import JobStates


def declare(assembly: Assembly) -> None:
    manager = assembly.manager
    states = JobStates(assembly.records)
    states.listen(JobMetrics(manager.metrics.registry, leads=assembly.leads))
    states.listen(assembly.events)
    following = assembly.pipeline.registry.having("on_transition")
    told = PluginTransitions(following, manager.metrics.registry, leads=assembly.leads)
    if following:
        states.listen(told)
        manager.add(told, Group.LEADER, "transitions")
