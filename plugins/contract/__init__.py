# SPDX-License-Identifier: Apache-2.0
"""All that the author of a plugin imports: the model, the extension points, declarations, findings and errors."""

from trainwright.plugins.contract.components import PLACEHOLDER, Component
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
from trainwright.plugins.contract.facts import OFFLINE, ClusterFacts, Reference, Unreadable
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
from trainwright.plugins.contract.gang import gang_members, gang_requests, may_regroup
from trainwright.plugins.contract.info import Info, Runtime
from trainwright.plugins.contract.owner import owned_metadata
from trainwright.plugins.contract.podset import PodSet
from trainwright.plugins.contract.points import (
    EXTENSION_POINTS,
    ComponentBuilder,
    CustomValidation,
    EnforceMLPolicy,
    EnforcePodGroupPolicy,
    EnforcePodSpec,
    Plugin,
    PreComponentBuilder,
    TrainJobStatus,
    UsesFacts,
    UsesStatusFacts,
    UsesValidationFacts,
    WatchExtension,
)
from trainwright.plugins.contract.provenance import TRAIN_JOB, Conflict, Ledger, Setting
from trainwright.plugins.contract.rendezvous import PORT, open_trainer_port, takes_part
from trainwright.plugins.contract.requests import cpu_count, gpu_count
from trainwright.plugins.contract.trainer import TrainerSettings

__all__ = [
    "APPLY",
    "EXTENSION_POINTS",
    "OFFLINE",
    "PLACEHOLDER",
    "PORT",
    "READ",
    "TRAIN_JOB",
    "WATCH",
    "ClusterFacts",
    "Component",
    "ComponentBuilder",
    "Conflict",
    "ContainerModel",
    "CustomValidation",
    "DuplicateObject",
    "EnforceMLPolicy",
    "EnforcePodGroupPolicy",
    "EnforcePodSpec",
    "Enqueue",
    "ErrorType",
    "FactUnavailable",
    "FieldError",
    "Finding",
    "Info",
    "InputMutated",
    "Ledger",
    "PipelineError",
    "Plugin",
    "PluginFailure",
    "PodSet",
    "PreComponentBuilder",
    "Reference",
    "Refusal",
    "RegistryError",
    "Rule",
    "Runtime",
    "Setting",
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
    "cpu_count",
    "forbidden",
    "gang_members",
    "gang_requests",
    "gpu_count",
    "internal",
    "invalid",
    "may_regroup",
    "open_trainer_port",
    "owned_metadata",
    "required",
    "takes_part",
]
