# SPDX-License-Identifier: Apache-2.0
"""Compiles the recovery of a job to rules of Job and JobSet, so that Kubernetes restarts all ranks when one fails.

The feature gate `Recovery` loads it. A job or its runtime asks for it: `trainwright.dev/recovery: gang`. A Job that
fails by a rule of its `podFailurePolicy` has the index of the rule in its message, which the JobSet's rules look at.
That message is no API of Kubernetes: where it changes, a failure is counted that would be free, and no more.
"""

import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import replace

from trainwright.api.config.v1alpha1 import Recovery
from trainwright.api.jobset.v1alpha2 import FailurePolicy, FailurePolicyRule
from trainwright.api.jobset.v1alpha2.labels import LABEL_ATTEMPT
from trainwright.api.kubernetes.batch import v1 as batch
from trainwright.api.kubernetes.core import v1 as core
from trainwright.api.objects import annotations_of, uid_of
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import (
    ANNOTATION_ATTEMPT_BASE,
    ANNOTATION_AVOIDED_NODES,
    ANNOTATION_CHECKPOINTS,
    ANNOTATION_EXIT_CODES,
    ANNOTATION_PROGRESS_STALL_AFTER,
    ANNOTATION_RECOVERY,
    ANNOTATION_RETRIES,
    DATASET_INITIALIZER,
    MODEL_INITIALIZER,
    NODE,
    RECOVERY_GANG,
    STEP_DATASET_INITIALIZER,
    STEP_MODEL_INITIALIZER,
)
from trainwright.api.trainer.v1alpha1.progress import Problem
from trainwright.api.trainer.v1alpha1.recovery import (
    CANNOT_RUN,
    Allowed,
    Declaration,
    claim_of,
    declared,
    late_changes,
    named,
)
from trainwright.plugins.contract import Finding, Info, PodSet, Warned, invalid

_WHY = f"{ANNOTATION_RECOVERY}: {RECOVERY_GANG}"
_DISRUPTED, _FINAL, _FREE = range(3)
"""Indexes of the rules of each Job, in order; the last one is left out where there are no free codes."""
_FAIL_JOB = "FailJob"
_BY_RULE = "PodFailurePolicy"
"""Reason of a Job that a rule has failed."""
VARIABLE_CHECKPOINTS = "TRAINWRIGHT_CHECKPOINT_DIR"
VARIABLE_ON_STALL, ON_STALL_RESTART = "TRAINWRIGHT_ON_STALL", "restart"
VARIABLE_ATTEMPT, VARIABLE_BASE = "TRAINWRIGHT_ATTEMPT", "TRAINWRIGHT_ATTEMPT_BASE"
"""Their sum is the attempt, from 0."""
CHECKPOINTS_VOLUME, CHECKPOINTS_FOLDER = "trainwright-checkpoints", "/mnt/trainwright-checkpoints"
_UID = 8
_NEVER = "Never"
_FALLBACK = "FallbackToLogsOnError"
_REPLACES_EARLY = "TerminatingOrFailed"
_AVOIDS = "recovery.avoidNodes of the Configuration"


class RecoveryPlugin:
    """Restarts all ranks together when one fails, for as many failures as the job has retries.

    Disruptions of pods and free exit codes cost no retry; a program that cannot run, and the exit codes that the job
    names, end it at once. Initializers keep the rules of the runtime.
    """

    name = "Recovery"
    off_by_default = True  # the feature gate enables it
    Configuration = Recovery

    def __init__(self, settings: Recovery) -> None:
        self._allowed = Allowed.of(settings)

    def validate(self, info: Info, old: TrainJob | None, job: TrainJob) -> Iterable[Finding]:
        """Refuse annotations of a new job that cannot work; warn of what is ignored, kept, or without effect."""
        wanted, problems = self._declared(info, job)
        own, before = annotations_of(job), annotations_of(old) if old is not None else {}
        if old is not None:
            yield from map(Warned, late_changes(before, own))
        for problem in problems:
            if problem.of_job and old is None:
                yield invalid(f"metadata.annotations[{problem.annotation}]", problem.value, problem.message)
            elif not problem.of_job or before.get(problem.annotation) != problem.value:
                yield Warned(problem.warning)
        if old is not None:
            return
        if wanted.is_gang:
            yield from map(Warned, _kept(info))
            return
        for name in named(own):
            if name not in (ANNOTATION_RECOVERY, ANNOTATION_CHECKPOINTS):
                yield Warned(f"annotation {name} has no effect without {ANNOTATION_RECOVERY}: {RECOVERY_GANG}")

    def enforce_pod_spec(self, info: Info, job: TrainJob) -> None:
        """Write the rules into the Jobs of all ranks, and into the JobSet."""
        wanted, _ = self._declared(info, job)
        if wanted.checkpoints:
            _keep_checkpoints(info, job, wanted)
        if wanted.checkpoints or wanted.is_gang:
            _tell_attempt(info, why=_WHY if wanted.is_gang else ANNOTATION_CHECKPOINTS)
        if not wanted.is_gang:
            return
        for pods in _ranks(info) if wanted.restarts_stalled else ():
            # The writer of progress then prints where each thread stands when its rank is stopped.
            if (container := pods.container(NODE)) is not None:
                container.set_env(VARIABLE_ON_STALL, ON_STALL_RESTART, why=ANNOTATION_PROGRESS_STALL_AFTER)
        ruled = _compile(info, wanted)
        known = info.recovery
        if known.attempts:
            info.set_pod_annotation(ANNOTATION_ATTEMPT_BASE, str(known.attempts), why=_WHY)
        if known.avoided_nodes:
            info.set_pod_annotation(ANNOTATION_AVOIDED_NODES, ",".join(known.avoided_nodes), why=_AVOIDS)
            for pods in _ranks(info):
                pods.avoid_nodes(known.avoided_nodes, why=_AVOIDS)
        info.held = known.held
        if known.retries is not None:
            wanted = replace(wanted, retries=known.retries)
        if not info.has_failure_policy:
            steps = [pods.name for pods in info.pod_sets if _is_initializer(pods)]
            info.set_failure_policy(_rules(wanted, ruled, steps), why=_WHY)

    def _declared(self, info: Info, job: TrainJob) -> tuple[Declaration, tuple[Problem, ...]]:
        return declared(annotations_of(job), annotations_of(info.runtime), self._allowed)


def _compile(info: Info, wanted: Declaration) -> list[str]:
    """Write the rules into the Jobs of all ranks. Returns the names of those that the rules of the JobSet apply to."""
    ruled = []
    for pods in _ranks(info):
        for container in (*pods.init_containers, *pods.containers):
            if container.termination_message_policy is None:
                container.set_termination_message_policy(_FALLBACK, why=_WHY)
        if _own_fields(pods):
            continue
        pods.set_restart_policy(_NEVER, why=_WHY)
        pods.set_backoff_limit(0, why=_WHY)
        if not info.has_failure_policy:
            pods.set_pod_failure_policy(_pod_rules(wanted), why=_WHY)
            ruled.append(pods.name)
    return ruled


def _keep_checkpoints(info: Info, job: TrainJob, wanted: Declaration) -> None:
    """Tell each trainer container where its checkpoints are, and mount the claim.

    The folder has the job's uid: a job of the same name must not go on from the last step of the one before.
    """
    claim = claim_of(wanted.checkpoints)
    place = wanted.checkpoints if claim is None else posixpath.join(CHECKPOINTS_FOLDER, claim[1])
    uid = uid_of(job)[:_UID]
    folder = posixpath.join(place, f"{job.name}-{uid}" if uid else job.name)
    for pods in _ranks(info):
        container = pods.container(NODE)
        if container is None:
            continue
        if claim is not None:
            source = core.PersistentVolumeClaimVolumeSource(claim_name=claim[0])
            pods.set_volume(
                core.Volume(name=CHECKPOINTS_VOLUME, persistent_volume_claim=source), why=ANNOTATION_CHECKPOINTS
            )
            mount = core.VolumeMount(name=CHECKPOINTS_VOLUME, mount_path=CHECKPOINTS_FOLDER)
            container.set_mount(mount, why=ANNOTATION_CHECKPOINTS)
        container.set_env(VARIABLE_CHECKPOINTS, folder, why=ANNOTATION_CHECKPOINTS)


def _tell_attempt(info: Info, *, why: str) -> None:
    """Tell each trainer container the number of its attempt, in two parts: nothing in Kubernetes can add them."""
    for container in filter(None, (pods.container(NODE) for pods in _ranks(info))):
        for name, field in (
            (VARIABLE_ATTEMPT, f"metadata.labels['{LABEL_ATTEMPT}']"),
            (VARIABLE_BASE, f"metadata.annotations['{ANNOTATION_ATTEMPT_BASE}']"),
        ):
            origin = core.EnvVarSource(field_ref=core.ObjectFieldSelector(field_path=field))
            container.set_variable(core.EnvVar(name=name, value_from=origin), why=why)


def _ranks(info: Info) -> list[PodSet]:
    """All replicated jobs but initializers."""
    return [pods for pods in info.pod_sets if not _is_initializer(pods)]


def _is_initializer(pods: PodSet) -> bool:
    by_step = pods.step in (STEP_DATASET_INITIALIZER, STEP_MODEL_INITIALIZER)
    return by_step or pods.name in (DATASET_INITIALIZER, MODEL_INITIALIZER)


def _own_fields(pods: PodSet) -> list[str]:
    """The fields of the template that say how its ranks recover: such a replicated job is left as it is.

    Kubernetes takes a `podFailurePolicy` with the restart policy Never only, and with no early replacement of pods.
    """
    own = [name for name in pods.failure_fields if name in ("backoffLimitPerIndex", "podFailurePolicy")]
    if pods.restart_policy not in (None, _NEVER):
        own.append("template.spec.restartPolicy")
    if pods.failure_fields.get("podReplacementPolicy") == _REPLACES_EARLY:
        own.append("podReplacementPolicy")
    return own


def _kept(info: Info) -> Iterable[str]:
    if info.has_failure_policy:
        names = f"{ANNOTATION_RETRIES} and {ANNOTATION_EXIT_CODES}"
        yield f"the runtime's spec.failurePolicy is kept, so {names} have no effect"
    for pods in _ranks(info):
        for name in _own_fields(pods):
            yield (
                f"the runtime's {pods.path}.template.spec.{name} is kept, so the rules of recovery do not apply to the "
                f"pods of {pods.name}"
            )


def _pod_rules(wanted: Declaration) -> batch.PodFailurePolicy:
    """What ends a Job, by cause. The order is that of the indexes."""
    disrupted = batch.PodFailurePolicyOnPodConditionsPattern(type="DisruptionTarget", status="True")
    rules = [
        batch.PodFailurePolicyRule(action=_FAIL_JOB, on_pod_conditions=[disrupted]),
        _rule_of(sorted({*CANNOT_RUN, *wanted.no_retry})),
    ]
    if wanted.free:
        rules.append(_rule_of(list(wanted.free)))
    return batch.PodFailurePolicy(rules=rules)


def _rule_of(codes: list[int]) -> batch.PodFailurePolicyRule:
    return batch.PodFailurePolicyRule(
        action=_FAIL_JOB, on_exit_codes=batch.PodFailurePolicyOnExitCodesRequirement(operator="In", values=codes)
    )


def _rules(wanted: Declaration, ruled: list[str], steps: list[str]) -> FailurePolicy:
    """What the end of a Job means for the JobSet. A failure that no rule matches costs a retry."""
    rules = []
    if ruled:
        free = [_DISRUPTED, _FREE] if wanted.free else [_DISRUPTED]
        rules.append(_matching("infra", "RestartJobSetAndIgnoreMaxRestarts", free, ruled))
        rules.append(_matching("final", "FailJobSet", [_FINAL], ruled))
    if steps:
        rules.append(FailurePolicyRule(name="steps", action="FailJobSet", target_replicated_jobs=steps))
    return FailurePolicy(max_restarts=wanted.retries, restart_strategy="BlockingRecreate", rules=rules or None)


def _matching(name: str, action: str, indexes: Sequence[int], targets: list[str]) -> FailurePolicyRule:
    return FailurePolicyRule(
        name=name,
        action=action,
        on_job_failure_reasons=[_BY_RULE],
        on_job_failure_message_patterns=[f"matching {_FAIL_JOB} rule at index {index}$" for index in indexes],
        # Those alone: the indexes of a policy of the runtime mean something else.
        target_replicated_jobs=list(targets),
    )
