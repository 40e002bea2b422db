# SPDX-License-Identifier: Apache-2.0
"""The extension points of the pipeline.

A plugin is an object with a `name`. It takes part in a phase by having the method of that extension point, with those
of its parameters that it needs, by their names; the registry checks them at start-up. All methods are plain functions
that get the inputs and the shared model, and do not block; `on_transition` alone may take its time. Those of Build
may read spec and metadata of the job and of facts but no status, because a new status alone causes no build.

Startup          WatchExtension
PreExecution     CustomValidation, ShapedValidation
Build            EnforceMLPolicy, EnforcePodGroupPolicy, ProgressReporter, EnforcePodSpec, PreComponentBuilder,
                 ComponentBuilder
PostExecution    TrainJobStatus (one plugin only)
Explanation      Explains (each time a user asks why the job does not train)
Transitions      FollowsTransitions (after the state of the job has changed)
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Protocol, runtime_checkable

from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1 import TrainJobStatus as Status
from trainwright.api.trainer.v1alpha1.runtimes import Runtime
from trainwright.plugins.contract.errors import Finding
from trainwright.plugins.contract.facts import ClusterFacts, Component, Reference, Watch
from trainwright.plugins.contract.info import Info
from trainwright.plugins.contract.picture import Cause, Picture
from trainwright.plugins.contract.podset import PodRef


class JobState(StrEnum):
    """What a TrainJob is doing. The first one that applies counts, in this order."""

    COMPLETE = "Complete"
    FAILED = "Failed"
    DELETING = "Deleting"
    BLOCKED = "Blocked"
    """The manager cannot build or apply its objects; the condition `Blocked` says why."""
    SUSPENDED = "Suspended"
    STUCK = "Stuck"
    """It does not train until a user or an administrator acts. This one and the next two need the gate `Explain`."""
    RESTARTING = "Restarting"
    """A container of it, or all of its pods, failed and start again."""
    WAITING = "Waiting"
    """It waits for something that can pass by itself."""
    STALLED = "Stalled"
    """Its pods run, and at least one of them seems to hang."""
    RUNNING = "Running"
    """All pods of a step are ready or have ended, or the training has reported since the job was started."""
    PENDING = "Pending"
    """Its pods are not ready yet."""

    @property
    def is_over(self) -> bool:
        """Whether a job in this state has ended."""
        return self in {JobState.COMPLETE, JobState.FAILED}

    @property
    def is_active(self) -> bool:
        """Whether pods of a job in this state may run: it has not ended, and is neither blocked nor suspended."""
        return self not in {JobState.COMPLETE, JobState.FAILED, JobState.BLOCKED, JobState.SUSPENDED}


@runtime_checkable
class Plugin(Protocol):
    """What every plugin has. It may also have these attributes:

    `before`, `after`  tuples of plugin names: run earlier or later than those; a disabled plugin is ignored, a name of
                       none that is installed is refused
    `rules`            tuple of `Rule`: the rights on the API server that its watches, facts and objects need
    `secrets`          tuple of `GeneratedSecret`: the Secrets that it makes for jobs
    `off_by_default`   True: it runs only where the Configuration enables it
    `Configuration`    a msgspec struct class for its settings in the manager's Configuration; the constructor of the
                       plugin then takes an instance of it as its only positional argument, else it takes none
    `uses_installation`  True: the constructor takes an `Installation` as keyword argument `installation`
    """

    name: str
    """Unique among the loaded plugins. The Configuration, messages and conditions use it."""


@runtime_checkable
class WatchExtension(Protocol):
    """Startup: let events of further kinds wake TrainJobs."""

    def watches(self) -> Sequence[Watch]:
        """What to watch; called once."""


@runtime_checkable
class UsesFacts(Protocol):
    """Before each run: name the objects of the cluster that the plugin needs."""

    def uses_facts(self, job: TrainJob, runtime: Runtime) -> Iterable[Reference]:
        """References that later calls will look up in `info.facts` (or `facts`) for this job."""


@runtime_checkable
class UsesValidationFacts(Protocol):
    """PreExecution: name further objects that only `validate` needs, and no build."""

    def validation_facts(self, job: TrainJob, runtime: Runtime) -> Iterable[Reference]:
        """References that `validate` will look up in `info.facts`, beside those of `uses_facts`."""


@runtime_checkable
class CustomValidation(Protocol):
    """PreExecution: refuse a TrainJob, or warn of it, when it is created or updated."""

    def validate(self, info: Info, old: TrainJob | None, job: TrainJob) -> Iterable[Finding]:
        """Everything that is wrong, not only the first problem. `old` is None on creation.

        No phase of the build has run on `info`: counts are those of the runtime, and plugins have set nothing.
        """


@runtime_checkable
class ShapedValidation(Protocol):
    """PreExecution: the same for rules about the outcome, once all plugins have shaped the template."""

    def validate_shaped(self, info: Info, old: TrainJob | None, job: TrainJob) -> Iterable[Finding]:
        """Everything that is wrong with the outcome. `old` is None on creation.

        Phases 1 to 4 of Build have run on `info`: counts and names are final. The method is not called when `validate`
        of any plugin found an error, nor when the template could not be shaped.
        """


@runtime_checkable
class EnforceMLPolicy(Protocol):
    """Build, phase 1: set up the framework: number of pods, variables, ports, volumes."""

    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        """Change `info`. Raises Refusal if the framework cannot be set up."""


@runtime_checkable
class EnforcePodGroupPolicy(Protocol):
    """Build, phase 2: mark the pods for the gang scheduler."""

    def enforce_pod_group_policy(self, info: Info, job: TrainJob) -> None:
        """Change `info`. The numbers of pods are final. Raises Refusal."""


@runtime_checkable
class ProgressReporter(Protocol):
    """Build, after phase 2: name the pod with rank 0, which reports the progress of the job."""

    def reporter(self, info: Info, job: TrainJob) -> PodRef | None:
        """The pod; None if the plugin is not in charge of this job. The last answer counts, in the order of plugins.

        Without an answer it is the first pod of the trainer. The result is `info.reporter` in the later phases.
        """


@runtime_checkable
class EnforcePodSpec(Protocol):
    """Build, phase 3: set what pods need for other reasons than a policy of the runtime."""

    def enforce_pod_spec(self, info: Info, job: TrainJob) -> None:
        """Change `info`. Raises Refusal."""


@runtime_checkable
class PreComponentBuilder(Protocol):
    """Build, phase 4: write the pod sets into the template. For the plugin that owns the template's kind."""

    def prepare_components(self, info: Info, job: TrainJob) -> None:
        """Change `info.template`. Raises Refusal."""


@runtime_checkable
class ComponentBuilder(Protocol):
    """Build, phase 5: build objects."""

    def build(self, info: Info, job: TrainJob) -> Iterable[Component]:
        """The objects to apply, in any order. Objects that are not yielded are left as they are. Raises Refusal."""


@runtime_checkable
class UsesStatusFacts(Protocol):
    """PostExecution: name the objects of the cluster that `status` needs. It depends on the TrainJob alone."""

    def status_facts(self, job: TrainJob) -> Iterable[Reference]:
        """References that `status` will look up in its facts for this job."""


@runtime_checkable
class TrainJobStatus(Protocol):
    """PostExecution: compute the status of the job. At most one plugin has it."""

    def status(self, job: TrainJob, facts: ClusterFacts) -> Status | None:
        """The whole new status, based on a copy of the current one; None leaves the status as it is."""


@runtime_checkable
class Explains(Protocol):
    """Explanation: say why a job does not train, where objects of the plugin's own kinds tell it."""

    def explain(self, picture: Picture) -> Iterable[Cause]:
        """The causes that show in the picture; none for a job that the plugin has no part in.

        It is called for each job that is asked for and that is not over, with any cluster: also where the kinds of the
        plugin are not served, and where they may not be read.
        """


@runtime_checkable
class FollowsTransitions(Protocol):
    """Transitions: be told that the state of a job has changed, to tell others or to act on the job."""

    def on_transition(self, job: TrainJob, old: JobState, new: JobState) -> None:
        """The job has left `old` and is `new`.

        It is called on the leader, in a thread of its own, one call of a plugin after the other and in the order of the
        changes; it may do I/O. `job` is a copy, as of the change. A call that raises is logged and not repeated; one
        that takes more than ten seconds is no longer waited for, and the next one begins.

        Changes are lost while no manager leads, when the plugin is 1,000 calls behind, and when the manager stops
        before the call. It is not called when the manager first sees a job, or when a job is deleted.
        """


EXTENSION_POINTS: dict[str, type] = {
    "watches": WatchExtension,
    "uses_facts": UsesFacts,
    "validation_facts": UsesValidationFacts,
    "validate": CustomValidation,
    "validate_shaped": ShapedValidation,
    "enforce_ml_policy": EnforceMLPolicy,
    "enforce_pod_group_policy": EnforcePodGroupPolicy,
    "reporter": ProgressReporter,
    "enforce_pod_spec": EnforcePodSpec,
    "prepare_components": PreComponentBuilder,
    "build": ComponentBuilder,
    "status_facts": UsesStatusFacts,
    "status": TrainJobStatus,
    "explain": Explains,
    "on_transition": FollowsTransitions,
}
"""Extension points by the name of their method, in the order in which they run."""

SHAPING = ("enforce_ml_policy", "enforce_pod_group_policy", "enforce_pod_spec", "prepare_components")
"""The hooks that change the model, in the order in which they run."""
