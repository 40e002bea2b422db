# SPDX-License-Identifier: Apache-2.0
"""All that the author of a plugin imports: the model, the extension points, declarations, findings and errors."""

from trainwright.api.trainer.v1alpha1.runtimes import Runtime
from trainwright.plugins.contract.causes import About, Cause, Link, Severity
from trainwright.plugins.contract.components import PLACEHOLDER, Component, Stage
from trainwright.plugins.contract.container import ContainerModel
from trainwright.plugins.contract.declarations import APPLY, READ, WATCH, Enqueue, Rule, Watch
from trainwright.plugins.contract.errors import (
    DuplicateObject,
    FactUnavailable,
    InputMutated,
    PipelineError,
    PluginFailure,
    Refusal,
    RegistryError,
)
from trainwright.plugins.contract.facts import OFFLINE, ClusterFacts, Unreadable
from trainwright.plugins.contract.findings import (
    ErrorType,
    FieldError,
    Finding,
    Verdict,
    Warned,
    forbidden,
    internal,
    invalid,
    required,
)
from trainwright.plugins.contract.gang import DEFAULT_SCHEDULER, GangScheduler
from trainwright.plugins.contract.info import Info, carried
from trainwright.plugins.contract.installation import Installation
from trainwright.plugins.contract.picture import Picture, condition_of, created_at, holds, since_of
from trainwright.plugins.contract.podset import PodSet, step_of
from trainwright.plugins.contract.points import (
    EXTENSION_POINTS,
    SHAPING,
    ComponentBuilder,
    CustomValidation,
    EnforceMLPolicy,
    EnforcePodGroupPolicy,
    EnforcePodSpec,
    Explains,
    FollowsTransitions,
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
from trainwright.plugins.contract.provenance import TRAIN_JOB, Ledger, Override, Setting
from trainwright.plugins.contract.reference import Reference
from trainwright.plugins.contract.rendezvous import PORT, open_trainer_port, takes_part
from trainwright.plugins.contract.reporter import PodRef
from trainwright.plugins.contract.requests import cpu_count, gpu_count
from trainwright.plugins.contract.states import JobState
from trainwright.plugins.contract.trainer import TrainerSettings

__all__ = [
    "APPLY",
    "DEFAULT_SCHEDULER",
    "EXTENSION_POINTS",
    "OFFLINE",
    "PLACEHOLDER",
    "PORT",
    "READ",
    "SHAPING",
    "TRAIN_JOB",
    "WATCH",
    "About",
    "Cause",
    "ClusterFacts",
    "Component",
    "ComponentBuilder",
    "ContainerModel",
    "CustomValidation",
    "DuplicateObject",
    "EnforceMLPolicy",
    "EnforcePodGroupPolicy",
    "EnforcePodSpec",
    "Enqueue",
    "ErrorType",
    "Explains",
    "FactUnavailable",
    "FieldError",
    "Finding",
    "FollowsTransitions",
    "GangScheduler",
    "Info",
    "InputMutated",
    "Installation",
    "JobState",
    "Ledger",
    "Link",
    "Override",
    "Picture",
    "PipelineError",
    "Plugin",
    "PluginFailure",
    "PodRef",
    "PodSet",
    "PreComponentBuilder",
    "ProgressReporter",
    "Reference",
    "Refusal",
    "RegistryError",
    "Rule",
    "Runtime",
    "Setting",
    "Severity",
    "ShapedValidation",
    "Stage",
    "TrainJobStatus",
    "TrainerSettings",
    "Unreadable",
    "UsesFacts",
    "UsesStatusFacts",
    "UsesValidationFacts",
    "Verdict",
    "Warned",
    "Watch",
    "WatchExtension",
    "carried",
    "condition_of",
    "cpu_count",
    "created_at",
    "forbidden",
    "gpu_count",
    "holds",
    "internal",
    "invalid",
    "open_trainer_port",
    "required",
    "since_of",
    "step_of",
    "takes_part",
]
