# SPDX-License-Identifier: Apache-2.0
"""All that the author of a plugin imports: the model, the extension points, declarations, findings and errors."""

from trainwright.api.rights import (
    Rule,
)
from trainwright.api.trainer.v1alpha1.runtimes import (
    Runtime,
)
from trainwright.plugins.contract.container import (
    ContainerModel,
)
from trainwright.plugins.contract.errors import (
    FactUnavailable,
    FieldError,
    Finding,
    Refusal,
    Warned,
    forbidden,
    internal,
    invalid,
    required,
)
from trainwright.plugins.contract.facts import (
    OFFLINE,
    PLACEHOLDER,
    ClusterFacts,
    Component,
    Enqueue,
    GeneratedSecret,
    Installation,
    RecoveryFacts,
    Reference,
    Stage,
    Watch,
)
from trainwright.plugins.contract.gang import (
    DEFAULT_SCHEDULER,
    GangScheduler,
)
from trainwright.plugins.contract.info import (
    PORT,
    Info,
    carried,
    open_trainer_port,
    takes_part,
)
from trainwright.plugins.contract.picture import (
    cause,
    holds,
)
from trainwright.plugins.contract.podset import (
    PodRef,
    PodSet,
    cpu_count,
    gpu_count,
    step_of,
)
from trainwright.plugins.contract.points import (
    ComponentBuilder,
    CustomValidation,
    EnforceMLPolicy,
    EnforcePodGroupPolicy,
    EnforcePodSpec,
    Explains,
    FollowsTransitions,
    JobState,
    Plugin,
    PreComponentBuilder,
    ProgressReporter,
    ShapedValidation,
    TrainJobStatus,
    UsesFacts,
    UsesStatusFacts,
    UsesValidationFacts,
    WatchExtension,
)
from trainwright.plugins.contract.provenance import (
    TRAIN_JOB,
)

__all__ = [
    "DEFAULT_SCHEDULER",
    "OFFLINE",
    "PLACEHOLDER",
    "PORT",
    "TRAIN_JOB",
    "ClusterFacts",
    "Component",
    "ComponentBuilder",
    "ContainerModel",
    "CustomValidation",
    "EnforceMLPolicy",
    "EnforcePodGroupPolicy",
    "EnforcePodSpec",
    "Enqueue",
    "Explains",
    "FactUnavailable",
    "FieldError",
    "Finding",
    "FollowsTransitions",
    "GangScheduler",
    "GeneratedSecret",
    "Info",
    "Installation",
    "JobState",
    "Plugin",
    "PodRef",
    "PodSet",
    "PreComponentBuilder",
    "ProgressReporter",
    "RecoveryFacts",
    "Reference",
    "Refusal",
    "Rule",
    "Runtime",
    "ShapedValidation",
    "Stage",
    "TrainJobStatus",
    "UsesFacts",
    "UsesStatusFacts",
    "UsesValidationFacts",
    "Warned",
    "Watch",
    "WatchExtension",
    "carried",
    "cause",
    "cpu_count",
    "forbidden",
    "gpu_count",
    "holds",
    "internal",
    "invalid",
    "open_trainer_port",
    "required",
    "step_of",
    "takes_part",
]
