# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: I001 - one import for each module
"""All that the author of a plugin imports: the model, the extension points, declarations, findings and errors."""

from typing import TYPE_CHECKING

from trainwright.api.facade import homes
from trainwright.api.rights import APPLY as APPLY, READ as READ, WATCH as WATCH, Rule as Rule
from trainwright.api.trainer.v1alpha1.runtimes import Runtime as Runtime
from trainwright.plugins.contract.container import ContainerModel as ContainerModel, TrainerSettings as TrainerSettings
from trainwright.plugins.contract.errors import (
    DuplicateObject as DuplicateObject,
    ErrorType as ErrorType,
    FactUnavailable as FactUnavailable,
    FieldError as FieldError,
    Finding as Finding,
    InputMutated as InputMutated,
    PipelineError as PipelineError,
    PluginFailure as PluginFailure,
    Refusal as Refusal,
    RegistryError as RegistryError,
    Verdict as Verdict,
    Warned as Warned,
    forbidden as forbidden,
    internal as internal,
    invalid as invalid,
    required as required,
)
from trainwright.plugins.contract.facts import (
    OFFLINE as OFFLINE,
    PLACEHOLDER as PLACEHOLDER,
    ClusterFacts as ClusterFacts,
    Component as Component,
    Enqueue as Enqueue,
    GeneratedSecret as GeneratedSecret,
    Installation as Installation,
    RecoveryFacts as RecoveryFacts,
    Reference as Reference,
    Stage as Stage,
    Unreadable as Unreadable,
    Watch as Watch,
)
from trainwright.plugins.contract.gang import DEFAULT_SCHEDULER as DEFAULT_SCHEDULER, GangScheduler as GangScheduler
from trainwright.plugins.contract.info import (
    PORT as PORT,
    Info as Info,
    carried as carried,
    open_trainer_port as open_trainer_port,
    takes_part as takes_part,
)
from trainwright.plugins.contract.picture import (
    About as About,
    Cause as Cause,
    Link as Link,
    Picture as Picture,
    Severity as Severity,
    condition_of as condition_of,
    created_at as created_at,
    holds as holds,
    since_of as since_of,
)
from trainwright.plugins.contract.podset import (
    PodRef as PodRef,
    PodSet as PodSet,
    cpu_count as cpu_count,
    gpu_count as gpu_count,
    step_of as step_of,
)
from trainwright.plugins.contract.points import (
    EXTENSION_POINTS as EXTENSION_POINTS,
    SHAPING as SHAPING,
    ComponentBuilder as ComponentBuilder,
    CustomValidation as CustomValidation,
    EnforceMLPolicy as EnforceMLPolicy,
    EnforcePodGroupPolicy as EnforcePodGroupPolicy,
    EnforcePodSpec as EnforcePodSpec,
    Explains as Explains,
    FollowsTransitions as FollowsTransitions,
    JobState as JobState,
    Plugin as Plugin,
    PreComponentBuilder as PreComponentBuilder,
    ProgressReporter as ProgressReporter,
    ShapedValidation as ShapedValidation,
    TrainJobStatus as TrainJobStatus,
    UsesFacts as UsesFacts,
    UsesStatusFacts as UsesStatusFacts,
    UsesValidationFacts as UsesValidationFacts,
    WatchExtension as WatchExtension,
)
from trainwright.plugins.contract.provenance import (
    TRAIN_JOB as TRAIN_JOB,
    Ledger as Ledger,
    Override as Override,
    Setting as Setting,
)

if not TYPE_CHECKING:  # type checkers take the form of the imports
    __all__ = list(homes(__file__))
