# SPDX-License-Identifier: Apache-2.0
"""The entry to the pipeline, which runs the plugins of a registry on one TrainJob after another.

It is a pure function of job, runtime and facts. Admission, reconcile, `render` and tests all use it.
"""

from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1 import TrainJobStatus as Status
from trainwright.plugins.contract import ClusterFacts, Reference, Runtime
from trainwright.plugins.pipeline.guard import GuardedInputs, PluginGuard
from trainwright.plugins.pipeline.run import PipelineRun
from trainwright.plugins.pipeline.template import Templates
from trainwright.plugins.registry import Registry


class StatusRun:
    """Made by `Pipeline.begin_status`."""

    def __init__(self, registry: Registry, job: TrainJob) -> None:
        self._registry = registry
        self._inputs = GuardedInputs(job)

    def references(self) -> tuple[Reference, ...]:
        """The objects that `status` needs. Raises PipelineError, FactUnavailable."""

        def collect(guard: PluginGuard) -> tuple[Reference, ...]:
            found: dict[Reference, None] = {}
            for entry in self._registry.having("status_facts"):
                found.update(dict.fromkeys(guard.collect(entry, "status_facts", guard.job)))
            return tuple(found)

        return self._inputs.phase(collect)

    def status(self, facts: ClusterFacts) -> Status | None:
        """The new status; None leaves the current one as it is. Raises PipelineError, FactUnavailable."""

        def ask(guard: PluginGuard) -> Status | None:
            for entry in self._registry.having("status"):
                found: Status | None = guard.call(entry, "status", guard.job, facts)
                return found
            return None

        return self._inputs.phase(ask)


class Pipeline:
    """Runs the plugins of a registry. One instance serves all jobs; it keeps the prepared templates of runtimes."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._templates = Templates()

    def begin(self, job: TrainJob, runtime: Runtime, old: TrainJob | None = None) -> PipelineRun:
        """Begin to build one TrainJob. `old` is the TrainJob before an update. No plugin is called yet."""
        return PipelineRun(self.registry, job, runtime, old, self._templates)

    def begin_status(self, job: TrainJob) -> StatusRun:
        """Begin to compute the status of one TrainJob. No plugin is called yet."""
        return StatusRun(self.registry, job)
