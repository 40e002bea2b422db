# SPDX-License-Identifier: Apache-2.0
"""Names that an OptimizationJob and its TrainJobs carry, and the names of trials and variables."""

import re
from typing import Final

from trainwright.api.objects import annotations_of
from trainwright.api.trainer.v1alpha1 import OptimizationJob

LABEL_JOB: Final = "trainwright.io/optimization-job"
"""On each TrainJob of a trial: the name of its OptimizationJob."""
ANNOTATION_TRIAL: Final = "trainwright.io/trial"
"""On a TrainJob: the number of its trial."""
ANNOTATION_PARAMETERS: Final = "trainwright.io/trial-parameters"
"""On a TrainJob: its parameters, as a JSON object of texts."""
ANNOTATION_PRUNED: Final = "trainwright.io/pruned"
"""On a TrainJob that was stopped early: the pruner, the step, and the value at that step, as JSON."""
ANNOTATION_SAMPLER: Final = "trainwright.io/sampler"
"""On an OptimizationJob: one of `SAMPLERS`, in place of random search."""
ANNOTATION_PRUNER: Final = "trainwright.io/pruner"
"""On an OptimizationJob, and on its TrainJobs: one of `PRUNERS`. Without it no trial is stopped early."""
ANNOTATION_WARMUP: Final = "trainwright.io/pruner-warmup-steps"
"""On an OptimizationJob: no trial is stopped before this step."""
ANNOTATION_SUSPEND: Final = "trainwright.io/suspend"
"""On an OptimizationJob: "true" pauses the search, which makes no more trials until it is gone."""

SAMPLERS: Final = ("tpe", "gp", "qmc", "cmaes")
PRUNERS: Final = ("median", "asha")
NOT_IN_TEMPLATE: Final = {LABEL_JOB, ANNOTATION_TRIAL, ANNOTATION_PARAMETERS, ANNOTATION_PRUNED, ANNOTATION_PRUNER}
VALUES: Final = {ANNOTATION_SAMPLER: SAMPLERS, ANNOTATION_PRUNER: PRUNERS, ANNOTATION_SUSPEND: ("true", "false")}

CREATED: Final = "Created"
COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
TRIALS_CREATED: Final = "TrainJobsCreated"
TRIALS_NOT_CREATED: Final = "TrainJobsCreationFailed"
PAUSED: Final = "Paused"
SAMPLER_FAILED: Final = "AlgorithmServiceCreationFailed"
MAX_TRIALS_REACHED: Final = "MaxTrialsReached"
SPACE_EXHAUSTED: Final = "SearchSpaceExhausted"
TRIALS_FAILED: Final = "TrialsFailed"
COUNTED: Final = "Counted"
ENDED, RUNNING, BEST = "TrialsEnded", "TrialsRunning", "BestTrial"
"""Conditions whose messages are columns. TRIALS_FAILED is one, too."""

_LONGEST: Final = 63
"""Of the name of a TrainJob."""


def train_job_name(job: str, number: int) -> str:
    return f"{job}-{number}"


def number_of(job: str, train_job: str) -> int | None:
    """The number of a trial by the name of its TrainJob; None: it is not the name of a trial."""
    digits = train_job.removeprefix(f"{job}-")
    return int(digits) if digits != train_job and re.fullmatch(r"[1-9][0-9]{0,2}", digits) else None


def is_paused(job: OptimizationJob) -> bool:
    return annotations_of(job).get(ANNOTATION_SUSPEND) == "true"


def longest_name(trials: int) -> int:
    """How many characters the name of an OptimizationJob may have, so that its TrainJobs can have theirs."""
    return _LONGEST - len(train_job_name("", trials))


def record_name(job: str) -> str:
    """Name of the ConfigMap that keeps what is known of the trials."""
    return f"{job}-trials"


def variable(parameter: str) -> str:
    """The environment variable that brings a parameter to the training."""
    return "KUBEFLOW_TRAINER_OPT_" + re.sub(r"[^A-Z0-9]", "_", parameter.upper())


def limit_of(job: OptimizationJob) -> int:
    """How many trials there can be: `numTrials`, or the size of the grid if that is smaller."""
    spec, size = job.spec, 1
    wanted = spec.num_trials or 1
    if spec.search_algorithm is None or spec.search_algorithm.grid is None:
        return wanted
    for parameter in spec.parameters:
        categorical = parameter.search_space.categorical
        size *= len(categorical.choices) if categorical is not None else 1
    return min(wanted, size)
