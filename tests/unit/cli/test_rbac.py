# SPDX-License-Identifier: Apache-2.0
"""The roles hold what the parts and plugins in use declare, and nothing else."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.repository import ROOT
from trainwright.api.config.v1alpha1 import (
    CertManagement,
    Cleanup,
    Configuration,
    ControllerMetrics,
    LeaderElectionConfiguration,
    MetricsAuth,
    Plugins,
    Progress,
    ProgressPull,
)
from trainwright.api.rights import Rule, merged
from trainwright.controller.cli.main import main
from trainwright.controller.cli.rbac import bindings, roles
from trainwright.controller.trainer.assembly.part import Rights
from trainwright.controller.trainer.assembly.parts import rights
from trainwright.controller.trainer.assembly.settings import settings_of
from trainwright.plugins.registry import Registry

HOME = "kubeflow-system"


def needed(**fields: Any) -> Rights:
    settings = settings_of(Configuration(**fields))
    return rights(settings, Registry.load(settings.plugins), HOME)


def verbs(rules: tuple[Rule, ...], resource: str) -> set[str]:
    return {verb for rule in rules if rule.resource == resource for verb in rule.verbs}


def test_rules_of_one_resource_become_one_unless_they_are_for_other_objects() -> None:
    rules = [Rule("", "pods", ("list",)), Rule("", "pods", ("get",)), Rule("", "pods", ("get",), ("a",))]
    assert merged(rules) == (Rule("", "pods", ("get", "list")), Rule("", "pods", ("get",), ("a",)))


@pytest.mark.parametrize(
    ("disabled", "resource"),
    [(["MPI", "Flux"], "secrets"), (["Volcano", "CoScheduling"], "podgroups"), (["Volcano"], "priorityclasses")],
)
def test_a_plugin_that_is_off_costs_no_right(disabled: list[str], resource: str) -> None:
    assert verbs(needed().on_jobs, resource)
    assert not verbs(needed(plugins=Plugins(disabled=disabled)).on_jobs, resource)


def test_a_part_that_is_off_costs_no_right() -> None:
    everything = needed(
        leader_election=LeaderElectionConfiguration(leader_elect=True, resource_name="mine"),
        metrics=ControllerMetrics(auth=MetricsAuth(enabled=True)),
    )
    assert Rule("coordination.k8s.io", "leases", ("get", "patch"), ("mine",)) in everything.by_namespace[HOME]
    assert verbs(everything.on_jobs, "tokenreviews") == {"create"}
    little = needed(cert_management=CertManagement(enable=False))
    assert little.by_namespace == {}
    assert verbs(little.on_jobs, "tokenreviews") == set()
    assert verbs(little.on_jobs, "validatingwebhookconfigurations") == {"get"}


def test_the_right_to_run_commands_comes_with_its_gate_alone_and_in_the_namespace_of_the_jobs() -> None:
    assert not verbs(needed(feature_gates={"TrainJobStatus": True}).on_jobs, "pods/exec")
    gate = {"ProgressPull": True}
    assert verbs(needed(feature_gates=gate).on_jobs, "pods/exec") == {"get", "create"}
    without = needed(feature_gates=gate, progress=Progress(pull=ProgressPull(exec=False)))
    assert not verbs(without.on_jobs, "pods/exec")
    assert verbs(without.on_jobs, "pods") == {"list"}
    found = roles(needed(feature_gates=gate), jobs_in="team")
    having = [role for role in found if any("pods/exec" in rule["resources"] for rule in role["rules"])]
    assert [(role["kind"], role["metadata"]["namespace"]) for role in having] == [("Role", "team")]


def test_secrets_are_never_read_outside_of_the_managers_namespace() -> None:
    assert verbs(needed().on_jobs, "secrets") == {"create"}
    assert not verbs(needed(plugins=Plugins(disabled=["MPI", "Flux"])).on_jobs, "secrets")


def test_a_manager_of_one_namespace_has_cluster_wide_what_lives_in_no_namespace() -> None:
    found = list(roles(needed(), jobs_in="team"))
    assert [(role["kind"], role["metadata"].get("namespace")) for role in found] == [
        ("ClusterRole", None),
        ("Role", HOME),
        ("Role", "team"),
    ]
    assert {resource for rule in found[0]["rules"] for resource in rule["resources"]} == {
        "clustertrainingruntimes",
        "mutatingwebhookconfigurations",
        "priorityclasses",
        "runtimeclasses",
        "validatingwebhookconfigurations",
    }
    assert {"trainjobs", "secrets"} <= {resource for rule in found[2]["rules"] for resource in rule["resources"]}


def test_what_is_given_everywhere_is_not_given_again() -> None:
    create = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]}
    assert create not in list(roles(needed()))[1]["rules"]
    assert create in list(roles(needed(plugins=Plugins(disabled=["MPI", "Flux"]))))[1]["rules"]
    assert create in list(roles(needed(), jobs_in="team"))[1]["rules"]


def test_each_role_is_bound_to_the_service_account() -> None:
    found = list(bindings(needed(), HOME, jobs_in=HOME))
    assert [(one["kind"], one["roleRef"]["kind"]) for one in found] == [
        ("ClusterRoleBinding", "ClusterRole"),
        ("RoleBinding", "Role"),
    ]
    assert all(one["subjects"][0]["namespace"] == HOME for one in found)


def test_the_command_prints_the_roles_of_a_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configuration = tmp_path / "configuration.yaml"
    configuration.write_text("plugins: {disabled: [MPI, Flux]}")
    assert main(["rbac", f"--config={configuration}", "--namespace=elsewhere"]) == 0
    printed = list(yaml.safe_load_all(capsys.readouterr().out))
    policy = ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]
    assert [one["kind"] for one in printed] == ["ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding", *policy]
    assert printed[1]["metadata"]["namespace"] == "elsewhere"
    assert all("secrets" not in rule["resources"] for rule in printed[0]["rules"])


def test_without_a_configuration_the_roles_are_the_shipped_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rbac"]) == 0
    shipped = (ROOT / "config" / "rbac" / "role.yaml").read_text()
    assert list(yaml.safe_load_all(capsys.readouterr().out)) == list(yaml.safe_load_all(shipped))


def test_the_command_names_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configuration = tmp_path / "configuration.yaml"
    configuration.write_text("plugins: {enabled: [Nothing]}")
    assert main(["rbac", f"--config={configuration}"]) == 1
    assert "plugin Nothing: enabled in the Configuration, but not installed" in capsys.readouterr().err


def test_only_clean_up_may_delete_jobs_and_secrets() -> None:
    without, cleaning = needed().on_jobs, needed(cleanup=Cleanup()).on_jobs
    for resource in ("trainjobs", "secrets", "podgroups"):
        assert "delete" not in verbs(without, resource)
        assert "delete" in verbs(cleaning, resource)


def test_progress_reports_cost_rights_with_their_gate_only() -> None:
    """Scenario 39 of progress."""
    gate = {"TrainJobStatus": True}
    without, reporting = needed(), needed(feature_gates=gate)
    assert not verbs(without.on_jobs, "pods")
    assert verbs(reporting.on_jobs, "pods") == {"get"}
    assert "get" not in verbs(without.on_jobs, "trainjobs")
    assert "get" in verbs(reporting.on_jobs, "trainjobs")
    # The CA certificates, where another program keeps them.
    files = CertManagement(enable=False, webhook_secret_name="cert")
    assert not verbs(needed(cert_management=files).by_namespace.get(HOME, ()), "secrets")
    (rule,) = needed(cert_management=files, feature_gates=gate).by_namespace[HOME]
    assert rule == Rule("", "secrets", ("get", "list", "watch"), ("cert",))


def test_a_secret_that_is_watched_by_name_is_not_cleaned_up() -> None:
    plugins = Plugins(disabled=["MPI", "Flux"])
    found = needed(feature_gates={"TrainJobStatus": True}, plugins=plugins, cleanup=Cleanup())
    assert not verbs(found.on_jobs, "secrets")
