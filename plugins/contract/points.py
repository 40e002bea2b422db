# SPDX-License-Identifier: Apache-2.0
"""The extension points: what a plugin may be.

A plugin is an object with a `name`; it takes part in a phase by having the method of that extension point, with exactly
these parameters. The registry checks that before anything runs. All methods are plain functions: they get frozen inputs
and the shared model, and wait for nothing. Those of Build may look at spec and metadata of the job and of facts, but at
no status: a new status alone is no reason to build again.

Startup          WatchExtension
PreExecution     CustomValidation
Build            EnforceMLPolicy, EnforcePodGroupPolicy, EnforcePodSpec, PreComponentBuilder, ComponentBuilder
PostExecution    TrainJobStatus (one plugin only)
"""

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1 import TrainJobStatus as Status
from trainwright.plugins.contract.components import Component
from trainwright.plugins.contract.declarations import Watch
from trainwright.plugins.contract.facts import ClusterFacts, Reference
from trainwright.plugins.contract.findings import Finding
from trainwright.plugins.contract.info import Info, Runtime


@runtime_checkable
class Plugin(Protocol):
    """All that a plugin must have. These may be set beside it, as attributes of the class:

    `before`, `after`  tuples of plugin names: run earlier or later than those; names that are not loaded do not matter
    `rules`            tuple of `Rule`: the rights on the API server that its watches, facts and objects need
    `off_by_default`   True: it runs only where the Configuration enables it
    `Configuration`    a msgspec struct class: its settings in the manager's Configuration; the plugin is then made with
                       an instance of it as the only argument, else without arguments
    """

    name: str
    """Unique among the plugins that are loaded; as in the Configuration, in messages and in conditions."""


@runtime_checkable
class WatchExtension(Protocol):
    """Startup: events of further kinds wake TrainJobs."""

    def watches(self) -> Sequence[Watch]:
        """What to watch; asked once."""
        ...


@runtime_checkable
class UsesFacts(Protocol):
    """Startup of each run: which objects of the cluster the plugin must know of."""

    def uses_facts(self, job: TrainJob, runtime: Runtime) -> Iterable[Reference]:
        """References that later calls will look up in `info.facts` (or `facts`) for this job."""
        ...


@runtime_checkable
class UsesValidationFacts(Protocol):
    """PreExecution: which further objects `validate` must know of, that no build needs to be read for."""

    def validation_facts(self, job: TrainJob, runtime: Runtime) -> Iterable[Reference]:
        """References that `validate` will look up in `info.facts`, beside those of `uses_facts`."""
        ...


@runtime_checkable
class CustomValidation(Protocol):
    """PreExecution: refuse a TrainJob, or warn of it, when it is created or updated."""

    def validate(self, info: Info, old: TrainJob | None, job: TrainJob) -> Iterable[Finding]:
        """Everything that is wrong, not only the first. `old` is None on creation.

        No phase of the build has run on `info`: counts are the runtime's, and nothing that plugins set is there.
        """
        ...


@runtime_checkable
class EnforceMLPolicy(Protocol):
    """Build, 1: what the framework needs: number of pods, environment, ports, volumes."""

    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        """Change `info`. Raises Refusal if the framework cannot be set up."""
        ...


@runtime_checkable
class EnforcePodGroupPolicy(Protocol):
    """Build, 2: marks of the gang scheduler on the pods."""

    def enforce_pod_group_policy(self, info: Info, job: TrainJob) -> None:
        """Change `info`. The numbers of pods are settled. Raises Refusal."""
        ...


@runtime_checkable
class EnforcePodSpec(Protocol):
    """Build, 3: what pods need for other reasons than a policy of the runtime."""

    def enforce_pod_spec(self, info: Info, job: TrainJob) -> None:
        """Change `info`. Raises Refusal."""
        ...


@runtime_checkable
class PreComponentBuilder(Protocol):
    """Build, 4: bring the template in line with the pod sets. For the plugin that owns the template's kind."""

    def prepare_components(self, info: Info, job: TrainJob) -> None:
        """Change `info.template`. Raises Refusal."""
        ...


@runtime_checkable
class ComponentBuilder(Protocol):
    """Build, 5: make objects."""

    def build(self, info: Info, job: TrainJob) -> Iterable[Component]:
        """The objects to apply, in any order; none means: leave those that exist alone. Raises Refusal."""
        ...


@runtime_checkable
class UsesStatusFacts(Protocol):
    """PostExecution: which objects of the cluster `status` must know of. The runtime does not matter there any more."""

    def status_facts(self, job: TrainJob) -> Iterable[Reference]:
        """References that `status` will look up in its facts for this job."""
        ...


@runtime_checkable
class TrainJobStatus(Protocol):
    """PostExecution: what has become of the job. At most one plugin has it."""

    def status(self, job: TrainJob, facts: ClusterFacts) -> Status | None:
        """The whole new status, made from a copy of the current one; None leaves it as it is."""
        ...


EXTENSION_POINTS: dict[str, type] = {
    "watches": WatchExtension,
    "uses_facts": UsesFacts,
    "validation_facts": UsesValidationFacts,
    "validate": CustomValidation,
    "enforce_ml_policy": EnforceMLPolicy,
    "enforce_pod_group_policy": EnforcePodGroupPolicy,
    "enforce_pod_spec": EnforcePodSpec,
    "prepare_components": PreComponentBuilder,
    "build": ComponentBuilder,
    "status_facts": UsesStatusFacts,
    "status": TrainJobStatus,
}
"""Extension points by the method that a plugin has, in the order in which they run."""
