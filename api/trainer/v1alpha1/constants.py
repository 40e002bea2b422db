# SPDX-License-Identifier: Apache-2.0
"""Names that are part of the API beside its fields: labels, annotations, jobs, containers, conditions, reasons.

Manifests, SDKs and queueing systems depend on them, so they must not change. Names that only one plugin uses are in
that plugin.
"""

from typing import Final

GROUP: Final = "trainer.kubeflow.org"
VERSION: Final = "v1alpha1"

# Labels and annotations.
LABEL_ANCESTOR_STEP: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
"""On replicated jobs of a runtime: the step of a TrainJob that they run."""
LABEL_SUPPORT: Final = "trainer.kubeflow.org/support"
SUPPORT_DEPRECATED: Final = "deprecated"
LABEL_WEBHOOK_VALIDATION: Final = "trainer.kubeflow.org/webhook-validation"
WEBHOOK_VALIDATION_DISABLED: Final = "disabled"
ANNOTATION_COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
FINALIZER_RESOURCE_IN_USE: Final = "trainer.kubeflow.org/resource-in-use"
"""Earlier versions of Kubeflow Trainer put it on runtimes; the manager only removes it."""
ANNOTATION_PROGRESS: Final = "trainwright.dev/progress"
"""On a TrainJob or its runtime: how progress is reported; `PROGRESS_PUSH` (the default) or another of these ways.

`file:/PATH` names the file in the container that trains.
"""
PROGRESS_PUSH: Final = "push"
PROGRESS_FILE: Final = "file"
"""The manager also reads a file in the pod of rank 0."""
PROGRESS_NONE: Final = "none"
ANNOTATION_PROGRESS_STALL_AFTER: Final = "trainwright.dev/progress-stall-after"
"""Time without a report after which a job counts as stalled. With `RECOVERY_GANG`, its ranks are restarted then."""
ANNOTATION_RECOVERY: Final = "trainwright.dev/recovery"
"""On a TrainJob or its runtime: what a failure of one rank leads to; `RECOVERY_NONE` (the default) or the other one."""
RECOVERY_NONE: Final = "none"
RECOVERY_GANG: Final = "gang"
"""All ranks restart together."""
ANNOTATION_RETRIES: Final = "trainwright.dev/retries"
"""Failures that a job with `RECOVERY_GANG` survives, beside those that are free."""
ANNOTATION_EXIT_CODES: Final = "trainwright.dev/exit-codes"
"""What exit codes mean, such as `75=free,3=final`: no retry is charged, or the job ends at once."""
ANNOTATION_CHECKPOINTS: Final = "trainwright.dev/checkpoints"
"""Where a job keeps its checkpoints: `pvc://CLAIM/PATH`, an absolute path, or an address."""
ANNOTATION_ATTEMPT_BASE: Final = "trainwright.dev/attempt-base"
"""Of pods: how many attempts there were before the first one of their JobSet, or before its last resume."""
ANNOTATION_AVOIDED_NODES: Final = "trainwright.dev/avoided-nodes"

# Steps, which are also the names of replicated jobs and containers of initializers.
STEP_TRAINER: Final = "trainer"
STEP_DATASET_INITIALIZER: Final = "dataset-initializer"
STEP_MODEL_INITIALIZER: Final = "model-initializer"

# Replicated jobs, containers, volumes.
NODE: Final = "node"
"""The replicated job of the trainer, and its container."""
LAUNCHER: Final = "launcher"
DATASET_INITIALIZER: Final = "dataset-initializer"
MODEL_INITIALIZER: Final = "model-initializer"
VOLUME_INITIALIZER: Final = "initializer"
STEP_CONTAINERS: Final = {
    STEP_TRAINER: NODE,
    STEP_DATASET_INITIALIZER: DATASET_INITIALIZER,
    STEP_MODEL_INITIALIZER: MODEL_INITIALIZER,
}
"""The container that each step must have."""
TRAINER_PORT: Final = 29500

# Managers.
MANAGED_BY_TRAINER: Final = "trainer.kubeflow.org/trainjob-controller"
FIELD_MANAGER: Final = "trainer"

# Kinds of runtimes.
KIND_CLUSTER_TRAINING_RUNTIME: Final = "ClusterTrainingRuntime"

# Conditions of a TrainJob and their reasons.
CONDITION_SUSPENDED: Final = "Suspended"
CONDITION_COMPLETE: Final = "Complete"
CONDITION_FAILED: Final = "Failed"
REASON_SUSPENDED: Final = "Suspended"
REASON_RESUMED: Final = "Resumed"
REASON_DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
EVENT_RESOURCES_CREATION_FAILED: Final = "TrainJobResourcesCreationFailed"

# Objects that belong to a TrainJob, by suffix of its name.
SUFFIX_RUNTIME_SNAPSHOT: Final = "-runtime-snapshot"
KEY_RUNTIME_SNAPSHOT: Final = "runtime"

# Environment of initializers.
ENV_STORAGE_URI: Final = "STORAGE_URI"
