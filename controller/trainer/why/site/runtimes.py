# SPDX-License-Identifier: Apache-2.0
"""Whether the runtimes can be used: they render, what they name exists, and their gangs can start."""

from collections.abc import Iterator

from trainwright.api.jobset.v1alpha2 import ReplicatedJob
from trainwright.api.trainer.v1alpha1.runtimes import pods_of
from trainwright.controller.trainer.why.kinds import PRIORITY_CLASS, RUNTIME_CLASS
from trainwright.controller.trainer.why.site.survey import (
    SiteFinding,
    SiteSurvey,
    TriedRuntime,
    first_of,
    note,
    problem,
    warning,
)

_GANGS = {
    "coscheduling": ("scheduling.x-k8s.io", "the scheduler plugins (https://scheduler-plugins.sigs.k8s.io)"),
    "volcano": ("scheduling.volcano.sh", "Volcano (https://volcano.sh)"),
}
"""API group of each gang scheduler, and what to install."""
_BUILT_IN = "system-"
_DEFAULT = "default-scheduler"


def usable(site: SiteSurvey) -> Iterator[SiteFinding]:
    """A one-node job of each runtime passes admission and can be built. Gangs with an order are among the warnings."""
    for one in site.rendered:
        if one.problem:
            yield problem(f"{one.title} cannot be used: {one.problem}", "correct the runtime")
        for error in one.verdict.errors if one.verdict is not None else ():
            yield problem(f"{one.title} refuses every job: {error}", "correct the runtime")
        for told in one.verdict.warnings if one.verdict is not None else ():
            yield warning(f"{one.title}: {told}", "correct the runtime")


def named(site: SiteSurvey) -> Iterator[SiteFinding]:
    """The classes that the pods of each runtime name exist."""
    for one in site.rendered:
        for job, pod in pods_of(one.runtime):
            name = pod.priority_class_name
            if name and not name.startswith(_BUILT_IN) and site.one(PRIORITY_CLASS, name) is None:
                yield _lacks(one, job, f"PriorityClass {name}")
            name = pod.runtime_class_name
            if name and site.one(RUNTIME_CLASS, name) is None:
                yield _lacks(one, job, f"RuntimeClass {name}")


def gangs(site: SiteSurvey) -> Iterator[SiteFinding]:
    """The gang scheduler of each runtime is installed, and its pods ask for it."""
    for one in site.rendered:
        policy = one.runtime.spec_or_empty.pod_group_policy_or_empty
        for name, (group, remedy) in _GANGS.items():
            if getattr(policy, name) is not None and not site.has_group(group):
                yield problem(
                    f"{one.title} needs the gang scheduler {name}, and the cluster does not serve {group}",
                    f"install {remedy}, or remove podGroupPolicy from the runtime",
                )
        if policy.coscheduling is not None:
            plain = [job.name for job, pod in pods_of(one.runtime) if pod.scheduler_name in {None, _DEFAULT}]
            if plain:
                yield warning(
                    f"{one.title} wants coscheduling, and the pods of {', '.join(plain)} ask for the {_DEFAULT}",
                    "set schedulerName to the scheduler that runs coscheduling, unless the default one does",
                )


def evidence(site: SiteSurvey) -> Iterator[SiteFinding]:
    """The logs of failed pods survive: by restartPolicy Never, or by the manager's record."""
    if not site.managers:
        return  # whose features are not known, as those of a local cluster
    configuration = site.configuration or {}
    gates = configuration.get("featureGates") or {}
    if gates.get("Explain", gates.get("AllAlpha", False)):
        return
    losing = [
        one.title for one in site.rendered if any(pod.restart_policy != "Never" for _, pod in pods_of(one.runtime))
    ]
    if losing:
        yield note(
            f"after the backoff limit, failed pods and their logs are gone with {first_of(sorted(losing))}",
            "turn on the feature gate Explain, which records them, or set restartPolicy: Never in the runtimes",
        )


def lifetimes(site: SiteSurvey) -> Iterator[SiteFinding]:
    """No JobSet deletes itself."""
    for one in site.rendered:
        seconds = one.runtime.spec_or_empty.template_or_empty.spec_or_empty.ttl_seconds_after_finished
        if seconds is not None:
            yield warning(
                f"{one.title} lets JobSets delete themselves {seconds} s after their end: if no manager runs for so "
                "long, it is not known how the job ended",
                "remove ttlSecondsAfterFinished; the section cleanup of the Configuration deletes whole TrainJobs",
            )


def _lacks(one: TriedRuntime, job: ReplicatedJob, what: str) -> SiteFinding:
    return problem(
        f"{one.title}: the pods of {job.name} name {what}, which does not exist", "create it, or correct the runtime"
    )
