# SPDX-License-Identifier: Apache-2.0
"""Each defect that the doctor knows, planted into a sound installation; and nothing in a sound one."""

import datetime as dt
import json
from base64 import b64encode
from dataclasses import replace
from typing import Any

import pytest

from tests.repository import ROOT
from tests.unit.plugins.blueprints import PIPELINE, blueprint, container, job_template
from tests.unit.trainer.doctor.made import Made, Unread, examine
from trainwright.api.objects import Document
from trainwright.api.rights import Rule
from trainwright.controller.cli.doctor import code_of, shipped_definitions, text_of
from trainwright.controller.runtime.certificates.authority import certificate_pem, make_authority
from trainwright.controller.trainer.why.site.examination import CHECKS
from trainwright.controller.trainer.why.site.survey import NOTE, PROBLEM, WARNING, Probe, TriedRuntime
from trainwright.plugins.contract import OFFLINE
from trainwright.plugins.contract.picture import Severity
from trainwright.plugins.testing import train_job

NOW = dt.datetime(2026, 6, 1, 12, 0, tzinfo=dt.UTC)
JOBSET = ROOT / "controller" / "local" / "controllers" / "jobsets.crd.json"
NEVER = {"restartPolicy": "Never"}


def rendered(*jobs: dict[str, Any], gang: Any = None, name: str = "r", **template: Any) -> TriedRuntime:
    runtime = blueprint({"numNodes": 1}, *jobs, gang=gang, name=name, **template)
    verdict = PIPELINE.begin(train_job(), runtime).validate(OFFLINE)
    return TriedRuntime(runtime=runtime, verdict=verdict)


def lease(renewed: str = "2026-06-01T11:59:58.000000Z", namespace: str = "kubeflow-system") -> Document:
    spec = {"holderIdentity": "manager-1", "renewTime": renewed, "leaseDurationSeconds": 15}
    return {"metadata": {"name": "trainer.kubeflow.org", "namespace": namespace}, "spec": spec}


def deployment(namespace: str = "kubeflow-system", image: str = "example.com/trainwright:1") -> Document:
    labels = {"app.kubernetes.io/name": "trainer", "app.kubernetes.io/component": "manager"}
    pod = {"serviceAccountName": "manager", "containers": [{"name": "manager", "image": image, "args": ["manager"]}]}
    return {
        "metadata": {"name": "manager", "namespace": namespace, "labels": labels},
        "spec": {"template": {"spec": pod}},
    }


def jobset_deployment(version: str) -> Document:
    pod = {"containers": [{"name": "manager", "image": f"registry.k8s.io/jobset/jobset:v{version}"}]}
    return {
        "metadata": {"name": "jobset-controller-manager", "namespace": "jobset-system"},
        "spec": {"template": {"spec": pod}},
    }


def webhooks(ends: dt.datetime = NOW + dt.timedelta(days=300), bundle: bytes | None = None) -> Document:
    if bundle is None:
        lifetime = dt.timedelta(days=365)
        bundle = certificate_pem(make_authority("ca", now=ends - lifetime, lifetime=lifetime).certificate)
    hook = {
        "name": "validator.trainjob.trainer.kubeflow.org",
        "clientConfig": {
            "service": {"namespace": "kubeflow-system", "name": "manager"},
            "caBundle": b64encode(bundle).decode(),
        },
        "rules": [{"apiGroups": ["trainer.kubeflow.org"], "resources": ["trainjobs"]}],
    }
    return {
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "validator.trainer.kubeflow.org"},
        "webhooks": [hook],
    }


def node(**devices: str) -> Document:
    return {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", **devices}}}


def finished(day: int) -> Document:
    condition = {"type": "Complete", "status": "True", "lastTransitionTime": f"2026-05-{day:02}T00:00:00Z"}
    return {"metadata": {"name": f"j{day}", "namespace": "n"}, "status": {"conditions": [condition]}}


def sound() -> Made:
    shipped = shipped_definitions()
    established = {"conditions": [{"type": "Established", "status": "True"}]}
    return Made(
        now=NOW,
        skew=0.4,
        version="v1.36.3",
        groups={"trainer.kubeflow.org": ("v1alpha1",), "jobset.x-k8s.io": ("v1alpha2",), "apps": ("v1",)},
        definitions={
            "jobsets.jobset.x-k8s.io": json.loads(JOBSET.read_text()),
            **{name: {**one, "status": established} for name, one in shipped.items()},
        },
        shipped=shipped,
        leases=[lease()],
        deployments=[deployment(), jobset_deployment("0.12.0")],
        webhooks=[webhooks()],
        services={("kubeflow-system", "manager"): {"metadata": {"name": "manager"}}},
        jobset_probe=Probe(code=201),
        job_probe=Probe(code=403, message='admission webhook "validator" denied the request: it does not exist'),
        configuration={"leaderElection": {"leaderElect": True}},
        rendered=[rendered(job_template(**NEVER))],
        nodes=[node()],
        jobs=[finished(3)],
        quotas=[],
    )


SOUND = sound()
SHIPPED = SOUND.shipped
TRAINJOBS = "trainjobs.trainer.kubeflow.org"
PLAIN = rendered(job_template(**NEVER))
WITH_GPUS = rendered(job_template("node", "trainer", container(resources={"limits": {"nvidia.com/gpu": 8}}), **NEVER))
AFTER_NODE = {"dependsOn": [{"name": "node", "status": "Complete"}]}
CLAIMS = [{"templates": [{"metadata": {"name": "data"}, "spec": {}}]}]
CHANGED_SCHEMA = {
    **SHIPPED,
    TRAINJOBS: {
        **SHIPPED[TRAINJOBS],
        "spec": {
            **SHIPPED[TRAINJOBS]["spec"],
            "versions": [{**SHIPPED[TRAINJOBS]["spec"]["versions"][0], "schema": {}}],
        },
    },
}


def with_groups(**versions: tuple[str, ...]) -> dict[str, Any]:
    names = {"gangs": "scheduling.x-k8s.io", "kueue": "kueue.x-k8s.io"}
    return {**SOUND.groups, **{names[name]: found for name, found in versions.items()}}


def jobset_without(*path: str) -> dict[str, Any]:
    """Definitions with that of a JobSet whose spec lacks a field."""
    definition = json.loads(JOBSET.read_text())
    (version,) = (one for one in definition["spec"]["versions"] if one["name"] == "v1alpha2")
    schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    for step in path[:-1]:
        schema = schema["items"] if step == "[]" else schema["properties"][step]
    del schema["properties"][path[-1]]
    return {**SOUND.definitions, "jobsets.jobset.x-k8s.io": definition}


def failed(webhook: str, why: str) -> Probe:
    return Probe(code=500, message=f'failed calling webhook "{webhook}": {why}')


def defect(check: str, severity: Severity, message: str, **changes: Any) -> Any:
    """What changes in a sound installation, the check that finds it, and the words that its message has."""
    return pytest.param(check, severity, message, changes, id=message)


FULL_QUOTA = {
    "metadata": {"name": "q", "namespace": "n"},
    "status": {"hard": {"pods": "4", "cpu": "10"}, "used": {"pods": "4", "cpu": "9500m"}},
}
UNCOVERED = {"metadata": {"name": "c"}, "spec": {"resourceGroups": [{"coveredResources": ["cpu", "memory"]}]}}
DENIED = [(Rule("", "secrets", ("create", "patch")), "create"), (Rule("", "secrets", ("patch",)), "patch")]
MANAGES_TRAINJOBS = "integrations: {frameworks: [trainer.kubeflow.org/trainjob]}"
DEFECTS = [
    defect(
        "Kubernetes",
        WARNING,
        "Kubernetes 1.30 is not supported; the oldest that is tried is 1.31",
        version="v1.30.14-eks-1",
    ),
    defect("Kubernetes", NOTE, "Kubernetes 1.37 was not tried", version="v1.37.0"),
    defect(
        "JobSet is installed",
        PROBLEM,
        "JobSet is too old: its definition lacks replicatedJobs[].groupName",
        definitions=jobset_without("replicatedJobs", "[]", "groupName"),
    ),
    defect(
        "JobSet is installed",
        PROBLEM,
        "JobSet does not know the field volumeClaimPolicies of TrainingRuntime team/torchtune, and refuses their jobs",
        definitions=jobset_without("volumeClaimPolicies"),
        rendered=[PLAIN, rendered(job_template(**NEVER), name="torchtune", volumeClaimPolicies=CLAIMS)],
    ),
    defect(
        "JobSet is installed",
        PROBLEM,
        "JobSet does not know the field replicatedJobs[].dependsOn of TrainingRuntime team/r, and refuses their jobs",
        definitions=jobset_without("replicatedJobs", "[]", "dependsOn"),
        rendered=[rendered(job_template(**NEVER), {**job_template("b", None, container("x"), **NEVER), **AFTER_NODE})],
    ),
    defect("JobSet is installed", PROBLEM, "JobSet is not installed", groups={"trainer.kubeflow.org": ("v1alpha1",)}),
    defect(
        "JobSet is installed",
        NOTE,
        "JobSet 0.11 is installed; tried is 0.10, 0.12",
        deployments=[deployment(), jobset_deployment("0.11.1")],
    ),
    defect(
        "JobSet answers",
        PROBLEM,
        "JobSet's webhook mjobset.kb.io does not answer",
        jobset_probe=failed("mjobset.kb.io", "connection refused"),
    ),
    defect("definitions", WARNING, f"{TRAINJOBS} is of another version", definitions=CHANGED_SCHEMA),
    defect(
        "definitions",
        PROBLEM,
        f"{TRAINJOBS} is missing",
        definitions={name: one for name, one in SHIPPED.items() if name != TRAINJOBS},
    ),
    defect("webhooks answer", PROBLEM, "no webhook checks TrainJobs", job_probe=Probe(code=201)),
    defect(
        "webhooks answer",
        PROBLEM,
        "does not trust the certificate",
        job_probe=failed("v", "x509: certificate signed by unknown"),
    ),
    defect(
        "webhooks answer",
        PROBLEM,
        "a webhook of TrainJobs does not answer",
        job_probe=failed("v", "connect: connection refused"),
    ),
    defect(
        "certificates of webhooks",
        PROBLEM,
        "its CA certificate ended at 2026-05-31",
        webhooks=[webhooks(NOW - dt.timedelta(days=1))],
    ),
    defect(
        "certificates of webhooks",
        WARNING,
        "its CA certificate ends at 2026-06-02",
        webhooks=[webhooks(NOW + dt.timedelta(days=1))],
    ),
    defect(
        "certificates of webhooks",
        PROBLEM,
        "caBundle holds no certificate",
        webhooks=[webhooks(bundle=b"nonsense")],
    ),
    defect(
        "webhooks lead somewhere",
        PROBLEM,
        "leads to Service kubeflow-system/manager, which does not exist",
        services={("kubeflow-system", "manager"): None},
    ),
    defect(
        "a manager works",
        PROBLEM,
        "Lease kubeflow-system/trainer.kubeflow.org was last renewed at 2026-06-01T11:59:00",
        leases=[lease("2026-06-01T11:59:00.000000Z")],
    ),
    defect(
        "one manager",
        PROBLEM,
        "two managers work on the same TrainJobs, in kubeflow-system, trainer",
        leases=[lease(), lease(namespace="trainer")],
    ),
    defect(
        "one manager",
        PROBLEM,
        "2 replicas work on the same TrainJobs, since leaderElection.leaderElect is false",
        deployments=[{**deployment(), "spec": {**deployment()["spec"], "replicas": 2}}],
        configuration={"leaderElection": {"leaderElect": False}},
        leases=[],
    ),
    defect(
        "rights of the manager",
        PROBLEM,
        "service account kubeflow-system/manager may not create, patch secrets",
        denied=DENIED,
    ),
    defect(
        "runtimes can be used",
        PROBLEM,
        "TrainingRuntime team/r cannot be used: it cannot",
        rendered=[replace(PLAIN, problem="it cannot", verdict=None)],
    ),
    defect(
        "classes of runtimes exist",
        PROBLEM,
        "the pods of node name RuntimeClass gvisor, which does not exist",
        rendered=[rendered(job_template(runtimeClassName="gvisor", **NEVER))],
    ),
    defect(
        "gang schedulers",
        PROBLEM,
        "needs the gang scheduler volcano",
        rendered=[rendered(job_template(schedulerName="volcano", **NEVER), gang={"volcano": {}})],
    ),
    defect(
        "gang schedulers",
        WARNING,
        "wants coscheduling, and the pods of node ask for the default-scheduler",
        groups=with_groups(gangs=("v1alpha1",)),
        rendered=[rendered(job_template(**NEVER), gang={"coscheduling": {}})],
    ),
    defect(
        "runtimes can be used",
        WARNING,
        "the job can never start: podGroupPolicy",
        groups=with_groups(gangs=("v1alpha1",)),
        rendered=[
            rendered(
                job_template(schedulerName="gang", **NEVER),
                {**job_template("b", None, container("x"), schedulerName="gang", **NEVER), **AFTER_NODE},
                gang={"coscheduling": {}},
            )
        ],
    ),
    defect(
        "Kueue",
        WARNING,
        "Kueue is installed and does not manage TrainJobs",
        groups=with_groups(kueue=("v1beta1",)),
        kueue_configuration="integrations: {frameworks: [batch/job]}",
    ),
    defect(
        "Kueue",
        NOTE,
        "ClusterQueue c has no quota for nvidia.com/gpu",
        groups=with_groups(kueue=("v1beta1",)),
        kueue_configuration=MANAGES_TRAINJOBS,
        nodes=[node(**{"nvidia.com/gpu": "8"})],
        rendered=[WITH_GPUS],
        cluster_queues=[UNCOVERED],
    ),
    defect("devices", PROBLEM, "no node offers nvidia.com/gpu", rendered=[WITH_GPUS]),
    defect(
        "devices",
        PROBLEM,
        "TrainingRuntime team/r asks for 8 nvidia.com/gpu a pod, and the largest node has 4",
        nodes=[node(**{"nvidia.com/gpu": "4"})],
        rendered=[WITH_GPUS],
    ),
    defect(
        "logs of failed pods",
        NOTE,
        "failed pods and their logs are gone with TrainingRuntime team/r",
        rendered=[rendered(job_template(restartPolicy="OnFailure"))],
    ),
    defect(
        "finished jobs",
        NOTE,
        "112 finished TrainJobs are kept, the oldest since 2026-05-01",
        jobs=[finished(day) for day in range(1, 29)] * 4,
    ),
    defect(
        "JobSets stay",
        WARNING,
        "lets JobSets delete themselves 60 s after their end",
        rendered=[rendered(job_template(**NEVER), ttlSecondsAfterFinished=60)],
    ),
    defect("quotas", WARNING, "ResourceQuota n/q is used up: pods", quotas=[FULL_QUOTA]),
    defect("clock", WARNING, "the clock of this machine is 90 s behind the API server's", skew=-90.0),
]


def test_nothing_is_wrong_with_a_sound_installation() -> None:
    examined = examine(sound())
    assert [one.title for one in examined] == list(CHECKS)
    assert [finding for one in examined for finding in one.findings] == []
    assert code_of(examined) == 0


@pytest.mark.parametrize(("check", "severity", "message", "changes"), DEFECTS)
def test_a_planted_defect_is_found_and_nothing_else(
    check: str, severity: Severity, message: str, changes: dict[str, Any]
) -> None:
    examined = examine(replace(SOUND, **changes))
    assert [one.title for one in examined if not one.is_sound] == [check], text_of(examined)
    (finding,) = (finding for one in examined for finding in one.findings)
    assert finding.severity is severity
    assert message in finding.message
    assert finding.remedy
    assert code_of(examined) == (0 if severity is NOTE else 1)


def test_a_manager_without_a_deployment_is_known_by_its_answer() -> None:
    """As that of a local cluster, which runs in the process of the API server."""
    site = replace(sound(), leases=[], deployments=[])
    assert code_of(examine(site)) == 0
    gone = replace(site, job_probe=Probe(code=201))
    assert [one.title for one in examine(gone) if not one.is_sound] == ["webhooks answer", "a manager works"]


@pytest.mark.parametrize(
    ("device", "remedy"), [("nvidia.com/gpu", "nvidia-smi"), ("amd.com/gpu", "on a cluster whose")]
)
def test_a_laptop_is_not_told_to_look_after_a_device_plugin(device: str, remedy: str) -> None:
    """No device plugin runs in a local cluster."""
    laptop: dict[str, Any] = {
        "metadata": {"name": "n"},
        "status": {"nodeInfo": {"containerRuntimeVersion": "local://processes"}},
    }
    asking = rendered(job_template("node", "trainer", container(resources={"limits": {device: 8}}), **NEVER))
    site = replace(sound(), nodes=[laptop], rendered=[asking, rendered(job_template(**NEVER))])
    ((told, finding),) = [(one.title, finding) for one in examine(site) for finding in one.findings]
    assert (told, finding.severity) == ("devices", NOTE)
    assert finding.message == f"this machine has no {device}; runtimes that need it: TrainingRuntime team/r"
    assert remedy in finding.remedy
    small = {"metadata": laptop["metadata"], "status": {**laptop["status"], "allocatable": {device: "4"}}}
    text = text_of(examine(replace(site, nodes=[small])))
    assert "larger nodes" not in text
    assert "device plugin" not in text
    # A cluster of others with such a node is none.
    assert "device plugin" in text_of(examine(replace(site, nodes=[laptop, node()])))


def test_the_originals_installation_is_not_held_against_our_rights_and_definitions() -> None:
    site = sound()
    theirs = deployment(image="ghcr.io/kubeflow/trainer/trainer-controller-manager:v2.2.0")
    theirs["spec"]["template"]["spec"]["containers"][0]["args"] = ["--config=/x.yaml"]
    site = replace(site, deployments=[theirs], definitions=CHANGED_SCHEMA, denied=[(Rule("", "pods", ("get",)), "get")])
    assert code_of(examine(site)) == 0


@pytest.mark.parametrize("field", ["groups", "definitions", "leases", "deployments", "webhooks", "rendered"])
def test_what_cannot_be_read_is_said_and_the_rest_is_checked(field: str) -> None:
    site = replace(SOUND)
    setattr(site, field, Unread(f"may not list {field}"))
    examined = examine(site)
    assert not any(one.findings for one in examined)
    assert {one.unread for one in examined} == {"", f"may not list {field}"}
    assert code_of(examined) == 3
    assert sum(one.is_sound for one in examined) >= len(CHECKS) // 2
    assert f"not checked: may not list {field}" in text_of(examined)
