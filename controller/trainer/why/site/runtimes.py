# SPDX-License-Identifier: Apache-2.0
"""Whether the runtimes can be used, and the cluster has what they ask for: classes, gangs, devices, queues, quotas."""

from collections.abc import Iterator
from datetime import timedelta

from trainwright.api.jobset.v1alpha2 import ReplicatedJob
from trainwright.api.objects import dig, name_of, namespace_of
from trainwright.api.quantity import Quantity
from trainwright.api.times import parse
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.runtimes import Runtime, pods_of
from trainwright.controller.trainer.why.job.scheduling import allocatable
from trainwright.controller.trainer.why.kinds import CLUSTER_QUEUE, KUEUE, PRIORITY_CLASS, QUOTA, RUNTIME_CLASS
from trainwright.controller.trainer.why.site.survey import (
    SiteSurvey,
    TriedRuntime,
    note,
    problem,
    warning,
)
from trainwright.controller.trainer.why.words import listed
from trainwright.plugins.contract.picture import Cause

_GANGS = {
    "coscheduling": ("scheduling.x-k8s.io", "the scheduler plugins (https://scheduler-plugins.sigs.k8s.io)"),
    "volcano": ("scheduling.volcano.sh", "Volcano (https://volcano.sh)"),
}
"""API group of each gang scheduler, and what to install."""
_BUILT_IN = "system-"
_DEFAULT = "default-scheduler"
_KUEUE_FRAMEWORK = "trainer.kubeflow.org/trainjob"
_OLD = timedelta(days=7)
_MANY = 100
_NVIDIA = "nvidia.com/gpu"


def usable(site: SiteSurvey) -> Iterator[Cause]:
    """A one-node job of each runtime passes admission and can be built. Gangs with an order are among the warnings."""
    for one in site.rendered:
        if one.problem:
            yield problem(f"{one.title} cannot be used: {one.problem}", "correct the runtime")
        for error in one.verdict.errors if one.verdict is not None else ():
            yield problem(f"{one.title} refuses every job: {error}", "correct the runtime")
        for told in one.verdict.warnings if one.verdict is not None else ():
            yield warning(f"{one.title}: {told}", "correct the runtime")


def named(site: SiteSurvey) -> Iterator[Cause]:
    """The classes that the pods of each runtime name exist."""
    for one in site.rendered:
        for job, pod in pods_of(one.runtime):
            name = pod.priority_class_name
            if name and not name.startswith(_BUILT_IN) and site.one(PRIORITY_CLASS, name) is None:
                yield _lacks(one, job, f"PriorityClass {name}")
            name = pod.runtime_class_name
            if name and site.one(RUNTIME_CLASS, name) is None:
                yield _lacks(one, job, f"RuntimeClass {name}")


def gangs(site: SiteSurvey) -> Iterator[Cause]:
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


def evidence(site: SiteSurvey) -> Iterator[Cause]:
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
            f"after the backoff limit, failed pods and their logs are gone with {listed(losing)}",
            "turn on the feature gate Explain, which records them, or set restartPolicy: Never in the runtimes",
        )


def lifetimes(site: SiteSurvey) -> Iterator[Cause]:
    """No JobSet deletes itself."""
    for one in site.rendered:
        seconds = one.runtime.spec_or_empty.template_or_empty.spec_or_empty.ttl_seconds_after_finished
        if seconds is not None:
            yield warning(
                f"{one.title} lets JobSets delete themselves {seconds} s after their end: if no manager runs for so "
                "long, it is not known how the job ended",
                "remove ttlSecondsAfterFinished; the section cleanup of the Configuration deletes whole TrainJobs",
            )


def _lacks(one: TriedRuntime, job: ReplicatedJob, what: str) -> Cause:
    return problem(
        f"{one.title}: the pods of {job.name} name {what}, which does not exist", "create it, or correct the runtime"
    )


def devices(site: SiteSurvey) -> Iterator[Cause]:
    """Nodes offer the extended resources that runtimes name, enough of them on one node."""
    asked: dict[str, dict[str, int]] = {}
    for one in site.rendered:
        for name, amount in _extended(one.runtime):
            asked.setdefault(name, {})[one.title] = max(amount, asked.get(name, {}).get(one.title, 0))
    for name, by_runtime in sorted(asked.items()):
        largest = max((allocatable(node, name).rounded_up() for node in site.nodes), default=0)
        if not largest:
            # Runtimes for devices are shipped, too, for clusters that have them.
            level = problem if len(by_runtime) == len(site.rendered) else note
            titles = ", ".join(sorted(by_runtime))
            if site.is_local:
                # No device plugin runs there: the local cluster asks the driver.
                yield level(f"this machine has no {name}; runtimes that need it: {titles}", _on_this_machine(name))
            else:
                yield level(
                    f"no node offers {name}; runtimes that need it: {titles}",
                    "look whether the device plugin runs on the nodes that have the devices",
                )
            continue
        for title, amount in sorted(by_runtime.items()):
            if amount > largest:
                yield problem(
                    f"{title} asks for {amount} {name} a pod, and the largest node has {largest}",
                    "ask for less in the runtime" + ("" if site.is_local else ", or add larger nodes"),
                )


def _on_this_machine(name: str) -> str:
    if name == _NVIDIA:
        return (
            "run their jobs on a machine with GPUs; if this one has some, look whether nvidia-smi lists them, and "
            "start the local cluster again"
        )
    return f"run their jobs on a cluster whose nodes have it: a local cluster offers {_NVIDIA} and no other devices"


def queues(site: SiteSurvey) -> Iterator[Cause]:
    """Where Kueue is installed, it manages TrainJobs, and its queues have quota for what runtimes ask for."""
    if not site.has_group(KUEUE):
        return
    text = site.kueue_configuration
    if text is not None and _KUEUE_FRAMEWORK not in text:
        yield warning(
            "Kueue is installed and does not manage TrainJobs: jobs with a queue label are never started",
            f"add {_KUEUE_FRAMEWORK} to integrations.frameworks of Kueue's Configuration",
        )
    asked = {name for one in site.rendered for name, _ in _extended(one.runtime)}
    for queue in site.all_of(CLUSTER_QUEUE):
        groups = dig(queue, "spec.resourceGroups") or ()
        covered = {name for group in groups for name in group.get("coveredResources") or ()}
        missing = sorted(asked - covered) if covered else []
        if missing:
            yield note(
                f"ClusterQueue {name_of(queue)} has no quota for {', '.join(missing)}, which runtimes ask for",
                "add the resources to the queue if jobs with them are to use it",
            )


def quotas(site: SiteSurvey) -> Iterator[Cause]:
    """No ResourceQuota of a namespace with TrainJobs is used up."""
    places = {namespace_of(job) for job in site.all_of(TrainJob.RESOURCE)}
    for quota in site.all_of(QUOTA):
        status = quota.get("status") or {}
        used = status.get("used") or {}
        full = [
            name
            for name, most in sorted((status.get("hard") or {}).items())
            if name in used and Quantity.parse(used[name]) >= Quantity.parse(most)
        ]
        if full and namespace_of(quota) in places:
            yield warning(
                f"ResourceQuota {namespace_of(quota)}/{name_of(quota)} is used up: {', '.join(full)}",
                "delete what is not needed, such as finished TrainJobs, or raise the quota",
            )


def leftovers(site: SiteSurvey) -> Iterator[Cause]:
    """Finished TrainJobs do not pile up."""
    ends = sorted(
        parse(condition["lastTransitionTime"])
        for job in site.all_of(TrainJob.RESOURCE)
        for condition in dig(job, "status.conditions") or ()
        if condition.get("type") in {"Complete", "Failed"} and condition.get("status") == "True"
    )
    if len(ends) >= _MANY and ends[0] < site.now - _OLD:
        yield note(
            f"{len(ends)} finished TrainJobs are kept, the oldest since {ends[0]:%Y-%m-%d}",
            "delete them, or let the section cleanup of the Configuration do so",
        )


def _extended(runtime: Runtime) -> Iterator[tuple[str, int]]:
    """The extended resources that containers of a runtime ask for, such as nvidia.com/gpu."""
    for _, pod in pods_of(runtime):
        for container in pod.containers or ():
            resources = container.resources_or_empty
            amounts = {**(resources.requests or {}), **(resources.limits or {})}
            for name, amount in amounts.items():
                if "/" in name and not name.startswith(("hugepages-", "requests.", "kubernetes.io/")):
                    yield name, Quantity.parse(amount).rounded_up()
