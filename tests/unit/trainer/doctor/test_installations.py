# SPDX-License-Identifier: Apache-2.0
"""What the doctor says of installations that are limited to a namespace, elsewhere, or made by Helm."""

from dataclasses import replace

import pytest

from tests.unit.trainer.doctor.made import Unread, examine
from tests.unit.trainer.doctor.test_doctor_checks import deployment, lease, sound
from trainwright.api.objects import Document
from trainwright.api.rights import Rule
from trainwright.controller.cli.doctor import text_of
from trainwright.controller.trainer.why.site.survey import NOTE, PROBLEM, Probe


def limited(*arguments: str) -> Document:
    """A manager of one namespace, which lives in another one than usual."""
    found = deployment(namespace="ml")
    found["spec"]["template"]["spec"]["containers"][0]["args"] += arguments
    return found


@pytest.mark.parametrize("arguments", [["--namespace=team"], ["--config=/x.yaml", "--namespace", "team"]])
def test_a_manager_of_one_namespace_is_not_said_to_leave_others_unchecked(arguments: list[str]) -> None:
    site = replace(sound(), deployments=[limited(*arguments)], leases=[lease(namespace="ml")])
    assert site.only == "team"
    # No webhook was asked, since the dry run was made elsewhere.
    elsewhere = replace(site, job_probe=Probe(code=201), tried_in="default")
    ((told, finding),) = [(one.title, finding) for one in examine(elsewhere) for finding in one.findings]
    assert (told, finding.severity) == ("webhooks answer", NOTE)
    assert (
        finding.message == "the manager manages the TrainJobs of namespace team only; nothing checks those of default"
    )
    assert "--namespace team" in finding.remedy
    there = replace(elsewhere, tried_in="team")
    assert [finding.severity for one in examine(there) for finding in one.findings] == [PROBLEM]
    lacking = replace(site, denied=[(Rule("", "secrets", ("get",), (), True), "get")])
    assert "may not get secrets in namespace team, as the manager must" in text_of(examine(lacking))


def test_a_remedy_names_the_namespace_of_the_manager() -> None:
    silent = Probe(code=500, message='failed calling webhook "v": connect: connection refused')
    site = replace(sound(), deployments=[limited()], leases=[lease(namespace="ml")], job_probe=silent)
    assert site.only == ""
    assert "kubectl get pods -n ml" in text_of(examine(site))


def test_the_chart_of_kubeflow_trainer_is_known_by_its_labels() -> None:
    theirs = deployment(namespace="kubeflow")
    theirs["metadata"]["labels"]["app.kubernetes.io/name"] = "kubeflow-trainer"
    assert replace(sound(), deployments=[theirs]).managers == [theirs]
    both = replace(sound(), deployments=[theirs, deployment()])
    assert "there are managers of TrainJobs in kubeflow, kubeflow-system" in text_of(examine(both))


def test_commands_name_the_namespace_that_is_known_or_none() -> None:
    dead = Probe(code=500, message='failed calling webhook "validator.trainjob.trainer.kubeflow.org"')
    site = replace(sound(), job_probe=dead, deployments=Unread("forbidden"), leases=Unread("forbidden"))
    service = {"namespace": "ml", "name": "s"}
    rules = [{"apiGroups": ["trainer.kubeflow.org"]}]
    hooks = {"webhooks": [{"clientConfig": {"service": service}, "rules": rules}]}
    site.webhooks = [{"metadata": {"name": "validator.trainer.kubeflow.org"}, **hooks}]
    assert site.pods == "kubectl get pods -n ml"
    assert "kubectl get pods -n ml" in text_of(examine(site))
    site.leases = [lease(namespace="of-lease")]
    site.webhooks = Unread("forbidden")
    assert site.pods == "kubectl get pods -n of-lease"
    site.leases = Unread("forbidden")
    assert site.pods == "kubectl get pods -A -l app.kubernetes.io/component=manager"
    site.webhooks = [{"metadata": {"name": "jobset-validating-webhook-configuration"}, **hooks}]
    assert site.jobset_pods == "kubectl get pods -n ml"
