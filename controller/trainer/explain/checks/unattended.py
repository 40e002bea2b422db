# SPDX-License-Identifier: Apache-2.0
"""Jobs that no controller works on: no manager, no JobSet, another cluster."""

from collections.abc import Iterator
from datetime import timedelta

from trainwright.api.objects import Document
from trainwright.api.times import format_time
from trainwright.api.trainer.v1alpha1.constants import MANAGED_BY_TRAINER, SUFFIX_RUNTIME_SNAPSHOT
from trainwright.controller.trainer.explain.catalogue import cause
from trainwright.controller.trainer.explain.checks.refusals import about_jobset, jobset_missing
from trainwright.controller.trainer.explain.kinds import CONFIG_MAP, LEASE
from trainwright.plugins.contract import About, Cause, Picture, Severity, created_at
from trainwright.plugins.contract.picture import JOBSET, moment

LEASE_NAME = "trainer.kubeflow.org"
MANAGER_NAMESPACE = "kubeflow-system"
NO_MANAGER_SECONDS = 30.0
SILENT_SECONDS = 60.0


def elsewhere(picture: Picture) -> Iterator[Cause]:
    """The job is the business of another controller."""
    manager = (picture.job.get("spec") or {}).get("managedBy")
    if not manager or manager == MANAGED_BY_TRAINER:
        return
    what = "it runs in another cluster, look there" if "multikueue" in manager else "ask that controller"
    yield cause(
        "ManagedElsewhere",
        f"the job is managed by {manager} (spec.managedBy): {what}",
        about=About.of(picture.job, "TrainJob"),
        since=created_at(picture.job),
    )


def unattended(picture: Picture) -> Iterator[Cause]:
    """No manager has made anything of the job, or JobSet has made nothing of its JobSet."""
    jobset = picture.get(JOBSET, picture.name)
    if jobset is None:
        if picture.serves(JOBSET) is False:
            about = About(kind="CustomResourceDefinition", namespace="", name="jobsets.jobset.x-k8s.io")
            yield cause("JobSetMissing", jobset_missing(), about=about, since=created_at(picture.job))
        elif picture.lacks(JOBSET, picture.name) or picture.serves(JOBSET) is None:
            yield from _no_manager(picture)
        return
    if not picture.is_controller_of(jobset) or not _is_silent(picture, jobset):
        return
    yield cause(
        "JobSetControllerSilent",
        f"JobSet {picture.name} exists and the JobSet controller has not looked at it: is the JobSet controller "
        "running? See `kubectl get pods -n jobset-system`",
        about=about_jobset(picture),
        since=created_at(jobset),
    )


def _no_manager(picture: Picture) -> Iterator[Cause]:
    status = picture.job.get("status") or {}
    is_new = not picture.lasted(created_at(picture.job), NO_MANAGER_SECONDS)
    if status or is_new or not picture.lacks(CONFIG_MAP, f"{picture.name}{SUFFIX_RUNTIME_SNAPSHOT}"):
        return
    lease = picture.get(LEASE, LEASE_NAME, MANAGER_NAMESPACE)
    spec = (lease or {}).get("spec") or {}
    renewed = moment(spec.get("renewTime"))
    holder = spec.get("holderIdentity")
    severity = Severity.STUCK
    lasting = timedelta(seconds=int(spec.get("leaseDurationSeconds") or 15))
    if lease is not None and holder and renewed is not None and renewed + lasting >= picture.now:
        why = f"the manager {str(holder).partition('_')[0]} leads, and has not come to it; if that lasts, see its log"
        severity = Severity.TEMPORARY
    elif lease is not None and renewed is not None:
        why = f"no manager holds Lease {LEASE_NAME} (last renewed {format_time(renewed)}); start the manager"
    else:
        why = f"is a manager running? See `kubectl get pods,leases -n {MANAGER_NAMESPACE}`"
    yield cause(
        "ManagerMissing",
        f"no manager has looked at the job since it was created: {why}",
        about=About(kind="Lease", namespace=MANAGER_NAMESPACE, name=LEASE_NAME),
        since=created_at(picture.job),
        severity=severity,
    )


def _is_silent(picture: Picture, jobset: Document) -> bool:
    spec, status = jobset.get("spec") or {}, jobset.get("status") or {}
    if status.get("conditions") or status.get("replicatedJobsStatus") or spec.get("suspend"):
        return False
    if not picture.lasted(created_at(jobset), SILENT_SECONDS):
        return False
    return not picture.jobs and not picture.events(jobset)
