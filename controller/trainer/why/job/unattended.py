# SPDX-License-Identifier: Apache-2.0
"""Jobs that no controller works on: no manager, no JobSet, another cluster."""

from collections.abc import Iterator
from datetime import timedelta

from trainwright.api.objects import Document, dig, labels_of, name_of, namespace_of
from trainwright.api.times import format_time, moment
from trainwright.api.trainer.v1alpha1.constants import MANAGED_BY_TRAINER, SUFFIX_RUNTIME_SNAPSHOT
from trainwright.controller.trainer.why.catalogue import about_job, cause
from trainwright.controller.trainer.why.job.refusals import JOBSET_MISSING, about_jobset
from trainwright.controller.trainer.why.kinds import CONFIG_MAP, DEPLOYMENT, LEASE, VALIDATING_WEBHOOKS
from trainwright.plugins.contract import About, Cause, Picture, Severity, created_at
from trainwright.plugins.contract.picture import JOBSET

LEASE_NAME = "trainer.kubeflow.org"
WEBHOOKS_NAME = "validator.trainer.kubeflow.org"
MANAGER_NAMESPACE = "kubeflow-system"
"""Where most installations have the manager; asked only where the namespaces of others may not be read."""
_MANAGERS = frozenset({"trainer", "kubeflow-trainer"})
"""Names in the labels of its Deployment; charts of Kubeflow Trainer give the second one."""
_COMPONENT = "app.kubernetes.io/component=manager"
NO_MANAGER_SECONDS = 30.0
SILENT_SECONDS = 60.0


def elsewhere(picture: Picture) -> Iterator[Cause]:
    """The job is the business of another controller."""
    manager = dig(picture.job, "spec.managedBy")
    if not manager or manager == MANAGED_BY_TRAINER:
        return
    what = "it runs in another cluster, look there" if "multikueue" in manager else "ask that controller"
    text = f"the job is managed by {manager} (spec.managedBy): {what}"
    yield cause("ManagedElsewhere", text, about_job(picture), created_at(picture.job))


def unattended(picture: Picture) -> Iterator[Cause]:
    """No manager has made anything of the job, or JobSet has made nothing of its JobSet."""
    jobset = picture.get(JOBSET, picture.name)
    if jobset is None:
        if picture.serves(JOBSET) is False:
            about = About(kind="CustomResourceDefinition", namespace="", name="jobsets.jobset.x-k8s.io")
            yield cause("JobSetMissing", JOBSET_MISSING, about, created_at(picture.job))
        elif picture.lacks(JOBSET, picture.name) or picture.serves(JOBSET) is None:
            yield from _no_manager(picture)
        return
    if not picture.is_controller_of(jobset) or not _is_silent(picture, jobset):
        return
    text = (
        f"JobSet {picture.name} exists and the JobSet controller has not looked at it: is the JobSet controller "
        f"running? See `kubectl get pods -n {_jobset_namespace(picture)}`"
    )
    yield cause("JobSetControllerSilent", text, about_jobset(picture), created_at(jobset))


def _no_manager(picture: Picture) -> Iterator[Cause]:
    status = picture.job.get("status") or {}
    is_new = not picture.lasted(created_at(picture.job), NO_MANAGER_SECONDS)
    if status or is_new or not picture.lacks(CONFIG_MAP, f"{picture.name}{SUFFIX_RUNTIME_SNAPSHOT}"):
        return
    home = _home(picture)
    lease = _lease(picture, home)
    spec = dig(lease, "spec") or {}
    renewed = moment(spec.get("renewTime"))
    holder = spec.get("holderIdentity")
    severity = Severity.STUCK
    lasting = timedelta(seconds=int(spec.get("leaseDurationSeconds") or 15))
    if lease is not None and holder and renewed is not None and renewed + lasting >= picture.now:
        why = f"the manager {str(holder).partition('_')[0]} leads, and has not come to it; if that lasts, see its log"
        severity = Severity.TEMPORARY
    elif lease is not None and renewed is not None:
        where = "" if namespace_of(lease) == MANAGER_NAMESPACE else f" of namespace {namespace_of(lease)}"
        why = f"no manager holds Lease {name_of(lease)}{where} (last renewed {format_time(renewed)}); start the manager"
    elif home:
        why = f"is a manager running? See `kubectl get pods,leases -n {home}`"
    elif _may_look_everywhere(picture):
        why = "no Deployment, Lease or webhook of a manager was found in this cluster; install or start one"
    else:
        why = "is a manager running? Where it runs may not be read: ask its administrator"
    text = f"no manager has looked at the job since it was created: {why}"
    yield cause(
        "ManagerMissing",
        text,
        About.of(lease, "Lease") if lease is not None else about_job(picture),
        created_at(picture.job),
        severity=severity,
    )


def _managers(picture: Picture) -> list[Document]:
    found = picture.list(DEPLOYMENT, labels=_COMPONENT, namespace="")
    return [one for one in found if labels_of(one).get("app.kubernetes.io/name") in _MANAGERS]


def _home(picture: Picture) -> str:
    """The namespace of the manager: that of its Deployment, else of the Service behind its webhooks; empty: unknown."""
    for one in _managers(picture):
        return namespace_of(one)
    for hook in dig(picture.get(VALIDATING_WEBHOOKS, WEBHOOKS_NAME), "webhooks") or ():
        service = dig(hook, "clientConfig.service") or {}
        if service.get("namespace"):
            return str(service["namespace"])
    return ""


def _lease(picture: Picture, home: str) -> Document | None:
    """The Lease of the manager: the one of the usual name, else one that a pod of its Deployment holds."""
    found = list(picture.list(LEASE, fields=f"metadata.name={LEASE_NAME}", namespace=home))
    if not found and home:
        names = tuple(f"{name_of(one)}-" for one in _managers(picture) if namespace_of(one) == home)
        found = [
            one
            for one in picture.list(LEASE, namespace=home)
            if names and str(dig(one, "spec.holderIdentity") or "").startswith(names)
        ]
    if not found and not home and not _may_look_everywhere(picture):
        found = [one for one in [picture.get(LEASE, LEASE_NAME, MANAGER_NAMESPACE)] if one is not None]
    return max(found, key=lambda one: str(dig(one, "spec.renewTime") or ""), default=None)


def _may_look_everywhere(picture: Picture) -> bool:
    return picture.knows(LEASE, fields=f"metadata.name={LEASE_NAME}", namespace="") and (
        picture.knows(DEPLOYMENT, labels=_COMPONENT, namespace="") or picture.serves(DEPLOYMENT) is False
    )


def _jobset_namespace(picture: Picture) -> str:
    found = picture.list(DEPLOYMENT, labels="app.kubernetes.io/part-of=jobset", namespace="")
    return namespace_of(found[0]) if found else "jobset-system"


def _is_silent(picture: Picture, jobset: Document) -> bool:
    spec, status = jobset.get("spec") or {}, jobset.get("status") or {}
    if status.get("conditions") or status.get("replicatedJobsStatus") or spec.get("suspend"):
        return False
    if not picture.lasted(created_at(jobset), SILENT_SECONDS):
        return False
    return not picture.jobs and not picture.events(jobset)
