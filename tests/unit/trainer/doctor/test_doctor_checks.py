# SPDX-License-Identifier: Apache-2.0
"""Each defect that the doctor knows, planted into a sound installation; and nothing in a sound one."""

import datetime as dt
import json
from base64 import b64encode
from collections.abc import Callable
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
from trainwright.controller.trainer.why.site.survey import Level, Probe, TriedRuntime
from trainwright.plugins.contract import OFFLINE
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


GPU: dict[str, Any] = {"resources": {"limits": {"nvidia.com/gpu": 8}}}
ORDERED = {**job_template("b", None, container("x"), **NEVER), "dependsOn": [{"name": "node", "status": "Complete"}]}


def changed_schema(site: Made) -> dict[str, Any]:
    definitions = dict(site.shipped)
    name = "trainjobs.trainer.kubeflow.org"
    spec = {**definitions[name]["spec"], "versions": [{**definitions[name]["spec"]["versions"][0], "schema": {}}]}
    return {**definitions, name: {**definitions[name], "spec": spec}}


def old_jobset(site: Made) -> dict[str, Any]:
    """Definitions with that of JobSet 0.8."""
    fields = {"type": "object", "properties": {"name": {"type": "string"}}}
    jobs = {"type": "array", "items": fields}
    schema = {"properties": {"spec": {"properties": {"replicatedJobs": jobs}}}}
    versions = [{"name": "v1alpha2", "schema": {"openAPIV3Schema": schema}}]
    return {**site.definitions, "jobsets.jobset.x-k8s.io": {"spec": {"versions": versions}}}


def jobset_without(site: Made, *path: str) -> dict[str, Any]:
    """Definitions with that of a JobSet whose spec lacks a field."""
    definition = json.loads(JOBSET.read_text())
    (version,) = (one for one in definition["spec"]["versions"] if one["name"] == "v1alpha2")
    schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    for step in path[:-1]:
        schema = schema["items"] if step == "[]" else schema["properties"][step]
    del schema["properties"][path[-1]]
    return {**site.definitions, "jobsets.jobset.x-k8s.io": definition}


CLAIMS = [{"templates": [{"metadata": {"name": "data"}, "spec": {}}]}]
DEFECTS: dict[str, tuple[str, Level, str, Callable[[Made], Made]]] = {
    "D0 old Kubernetes": (
        "Kubernetes",
        Level.WARNING,
        "Kubernetes 1.30 is not supported; the oldest that is tried is 1.31",
        lambda site: replace(site, version="v1.30.14-eks-1"),
    ),
    "D0 new Kubernetes": (
        "Kubernetes",
        Level.NOTE,
        "Kubernetes 1.37 was not tried",
        lambda site: replace(site, version="v1.37.0"),
    ),
    "D1 old JobSet": (
        "JobSet is installed",
        Level.PROBLEM,
        "JobSet is too old: its definition lacks replicatedJobs[].groupName",
        lambda site: replace(site, definitions=old_jobset(site)),
    ),
    "D1 JobSet without claims": (
        "JobSet is installed",
        Level.PROBLEM,
        "JobSet does not know the field volumeClaimPolicies of TrainingRuntime team/torchtune, and refuses their jobs",
        lambda site: replace(
            site,
            definitions=jobset_without(site, "volumeClaimPolicies"),
            rendered=[
                rendered(job_template(**NEVER)),
                rendered(job_template(**NEVER), name="torchtune", volumeClaimPolicies=CLAIMS),
            ],
        ),
    ),
    "D1 JobSet without a field of jobs": (
        "JobSet is installed",
        Level.PROBLEM,
        "JobSet does not know the field replicatedJobs[].dependsOn of TrainingRuntime team/r, and refuses their jobs",
        lambda site: replace(
            site,
            definitions=jobset_without(site, "replicatedJobs", "[]", "dependsOn"),
            rendered=[rendered(job_template(**NEVER), ORDERED)],
        ),
    ),
    "D1 no JobSet": (
        "JobSet is installed",
        Level.PROBLEM,
        "JobSet is not installed",
        lambda site: replace(site, groups={"trainer.kubeflow.org": ("v1alpha1",)}),
    ),
    "D1 another JobSet": (
        "JobSet is installed",
        Level.NOTE,
        "JobSet 0.11 is installed; tried is 0.10, 0.12",
        lambda site: replace(site, deployments=[deployment(), jobset_deployment("0.11.1")]),
    ),
    "D2 JobSet's webhook": (
        "JobSet answers",
        Level.PROBLEM,
        "JobSet's webhook mjobset.kb.io does not answer",
        lambda site: replace(
            site, jobset_probe=Probe(code=500, message='failed calling webhook "mjobset.kb.io": connection refused')
        ),
    ),
    "D3 old definition": (
        "definitions",
        Level.WARNING,
        "trainjobs.trainer.kubeflow.org is of another version",
        lambda site: replace(site, definitions=changed_schema(site)),
    ),
    "D3 no definition": (
        "definitions",
        Level.PROBLEM,
        "trainjobs.trainer.kubeflow.org is missing",
        lambda site: replace(
            site, definitions={k: v for k, v in site.shipped.items() if not k.startswith("trainjobs.")}
        ),
    ),
    "D4 no webhook": (
        "webhooks answer",
        Level.PROBLEM,
        "no webhook checks TrainJobs",
        lambda site: replace(site, job_probe=Probe(code=201)),
    ),
    "D4 wrong CA": (
        "webhooks answer",
        Level.PROBLEM,
        "does not trust the certificate",
        lambda site: replace(
            site, job_probe=Probe(code=500, message='failed calling webhook "v": x509: certificate signed by unknown')
        ),
    ),
    "D4 nobody answers": (
        "webhooks answer",
        Level.PROBLEM,
        "does not answer",
        lambda site: replace(
            site, job_probe=Probe(code=500, message='failed calling webhook "v": connect: connection refused')
        ),
    ),
    "D4 CA has ended": (
        "certificates of webhooks",
        Level.PROBLEM,
        "its CA certificate ended at 2026-05-31",
        lambda site: replace(site, webhooks=[webhooks(NOW - dt.timedelta(days=1))]),
    ),
    "D4 CA ends soon": (
        "certificates of webhooks",
        Level.WARNING,
        "its CA certificate ends at 2026-06-02",
        lambda site: replace(site, webhooks=[webhooks(NOW + dt.timedelta(days=1))]),
    ),
    "D4 CA is nonsense": (
        "certificates of webhooks",
        Level.PROBLEM,
        "caBundle holds no certificate",
        lambda site: replace(site, webhooks=[webhooks(bundle=b"nonsense")]),
    ),
    "D5 left over": (
        "webhooks lead somewhere",
        Level.PROBLEM,
        "leads to Service kubeflow-system/manager, which does not exist",
        lambda site: replace(site, services={("kubeflow-system", "manager"): None}),
    ),
    "D6 nobody leads": (
        "a manager works",
        Level.PROBLEM,
        "Lease kubeflow-system/trainer.kubeflow.org was last renewed at 2026-06-01T11:59:00",
        lambda site: replace(site, leases=[lease("2026-06-01T11:59:00.000000Z")]),
    ),
    "D7 two managers": (
        "one manager",
        Level.PROBLEM,
        "two managers work on the same TrainJobs, in kubeflow-system, trainer",
        lambda site: replace(site, leases=[lease(), lease(namespace="trainer")]),
    ),
    "D8 a right is missing": (
        "rights of the manager",
        Level.PROBLEM,
        "service account kubeflow-system/manager may not create, patch secrets",
        lambda site: replace(
            site,
            denied=[(Rule("", "secrets", ("create", "patch")), "create"), (Rule("", "secrets", ("patch",)), "patch")],
        ),
    ),
    "D9 a runtime cannot be used": (
        "runtimes can be used",
        Level.PROBLEM,
        "TrainingRuntime team/r cannot be used: it cannot",
        lambda site: replace(
            site, rendered=[replace(rendered(job_template(**NEVER)), problem="it cannot", verdict=None)]
        ),
    ),
    "D9 a class is missing": (
        "classes of runtimes exist",
        Level.PROBLEM,
        "the pods of node name RuntimeClass gvisor, which does not exist",
        lambda site: replace(site, rendered=[rendered(job_template(runtimeClassName="gvisor", **NEVER))]),
    ),
    "D10 no gang scheduler": (
        "gang schedulers",
        Level.PROBLEM,
        "needs the gang scheduler volcano",
        lambda site: replace(
            site, rendered=[rendered(job_template(schedulerName="volcano", **NEVER), gang={"volcano": {}})]
        ),
    ),
    "D10 the default scheduler": (
        "gang schedulers",
        Level.WARNING,
        "wants coscheduling, and the pods of node ask for the default-scheduler",
        lambda site: replace(
            site,
            groups={**site.groups, "scheduling.x-k8s.io": ("v1alpha1",)},
            rendered=[rendered(job_template(**NEVER), gang={"coscheduling": {}})],
        ),
    ),
    "D11 a gang with steps": (
        "runtimes can be used",
        Level.WARNING,
        "the job can never start: podGroupPolicy",
        lambda site: replace(
            site,
            groups={**site.groups, "scheduling.x-k8s.io": ("v1alpha1",)},
            rendered=[
                rendered(
                    job_template(schedulerName="gang", **NEVER),
                    {
                        **job_template("b", None, container("x"), schedulerName="gang", **NEVER),
                        "dependsOn": ORDERED["dependsOn"],
                    },
                    gang={"coscheduling": {}},
                )
            ],
        ),
    ),
    "D12 Kueue ignores TrainJobs": (
        "Kueue",
        Level.WARNING,
        "Kueue is installed and does not manage TrainJobs",
        lambda site: replace(
            site,
            groups={**site.groups, "kueue.x-k8s.io": ("v1beta1",)},
            kueue_configuration="integrations: {frameworks: [batch/job]}",
        ),
    ),
    "D12 a queue without the device": (
        "Kueue",
        Level.NOTE,
        "ClusterQueue c has no quota for nvidia.com/gpu",
        lambda site: replace(
            site,
            groups={**site.groups, "kueue.x-k8s.io": ("v1beta1",)},
            kueue_configuration="integrations: {frameworks: [trainer.kubeflow.org/trainjob]}",
            nodes=[node(**{"nvidia.com/gpu": "8"})],
            rendered=[rendered(job_template("node", "trainer", container(**GPU), **NEVER))],
            cluster_queues=[
                {"metadata": {"name": "c"}, "spec": {"resourceGroups": [{"coveredResources": ["cpu", "memory"]}]}}
            ],
        ),
    ),
    "D13 no device": (
        "devices",
        Level.PROBLEM,
        "no node offers nvidia.com/gpu",
        lambda site: replace(site, rendered=[rendered(job_template("node", "trainer", container(**GPU), **NEVER))]),
    ),
    "D13 nodes are too small": (
        "devices",
        Level.PROBLEM,
        "TrainingRuntime team/r asks for 8 nvidia.com/gpu a pod, and the largest node has 4",
        lambda site: replace(
            site,
            nodes=[node(**{"nvidia.com/gpu": "4"})],
            rendered=[rendered(job_template("node", "trainer", container(**GPU), **NEVER))],
        ),
    ),
    "D14 logs go": (
        "logs of failed pods",
        Level.NOTE,
        "failed pods and their logs are gone with TrainingRuntime team/r",
        lambda site: replace(site, rendered=[rendered(job_template(restartPolicy="OnFailure"))]),
    ),
    "D15 leftovers": (
        "finished jobs",
        Level.NOTE,
        "112 finished TrainJobs are kept, the oldest since 2026-05-01",
        lambda site: replace(site, jobs=[finished(day) for day in range(1, 29)] * 4),
    ),
    "D16 JobSets delete themselves": (
        "JobSets stay",
        Level.WARNING,
        "lets JobSets delete themselves 60 s after their end",
        lambda site: replace(site, rendered=[rendered(job_template(**NEVER), ttlSecondsAfterFinished=60)]),
    ),
    "a quota is used up": (
        "quotas",
        Level.WARNING,
        "ResourceQuota n/q is used up: pods",
        lambda site: replace(
            site,
            quotas=[
                {
                    "metadata": {"name": "q", "namespace": "n"},
                    "status": {"hard": {"pods": "4", "cpu": "10"}, "used": {"pods": "4", "cpu": "9500m"}},
                }
            ],
        ),
    ),
    "a wrong clock": (
        "clock",
        Level.WARNING,
        "the clock of this machine is 90 s behind the API server's",
        lambda site: replace(site, skew=-90.0),
    ),
}


def test_nothing_is_wrong_with_a_sound_installation() -> None:
    examined = examine(sound())
    assert [one.title for one in examined] == list(CHECKS)
    assert [finding for one in examined for finding in one.findings] == []
    assert code_of(examined) == 0


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_found_and_nothing_else(defect: str) -> None:
    check, level, message, plant = DEFECTS[defect]
    examined = examine(plant(sound()))
    found = [(one.title, finding) for one in examined for finding in one.findings]
    assert [(title, finding.level) for title, finding in found] == [(check, level)], text_of(examined)
    ((_, finding),) = found
    assert message in finding.message
    assert finding.remedy
    assert code_of(examined) == (0 if level is Level.NOTE else 1)


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
    assert (told, finding.level) == ("devices", Level.NOTE)
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
    site = replace(
        site, deployments=[theirs], definitions=changed_schema(site), denied=[(Rule("", "pods", ("get",)), "get")]
    )
    assert code_of(examine(site)) == 0


@pytest.mark.parametrize("field", ["groups", "definitions", "leases", "deployments", "webhooks", "rendered"])
def test_what_cannot_be_read_is_said_and_the_rest_is_checked(field: str) -> None:
    site = sound()
    setattr(site, field, Unread(f"may not list {field}"))
    examined = examine(site)
    findings = [finding for one in examined for finding in one.findings]
    assert {finding.level for finding in findings} == {Level.UNKNOWN}
    assert all(f"may not list {field}" in finding.message for finding in findings)
    assert code_of(examined) == 3
    assert sum(one.is_sound for one in examined) >= len(CHECKS) // 2
