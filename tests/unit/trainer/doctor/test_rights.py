# SPDX-License-Identifier: Apache-2.0
"""Which rights the doctor asks for, and where: those that the roles of this very manager hold."""

import asyncio
from typing import Any

import msgspec
import pytest

from tests.unit.plugins.blueprints import PIPELINE
from tests.unit.trainer.doctor.made import examine
from tests.unit.trainer.doctor.test_doctor_checks import deployment, sound
from trainwright.api.manifest import dump
from trainwright.api.objects import Document
from trainwright.api.rights import Rule
from trainwright.controller.cli.doctor import needed_rights, text_of
from trainwright.controller.cli.rbac import roles
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.client.transport import Request, Response
from trainwright.controller.runtime.testing.scripted import ScriptedTransport, listing, status_body
from trainwright.controller.trainer.assembly.part import Rights
from trainwright.controller.trainer.assembly.parts import rights
from trainwright.controller.trainer.assembly.settings import settings_of
from trainwright.controller.trainer.why.site.examination import gather
from trainwright.controller.trainer.why.site.survey import CONFIGURATION, CONFIGURATION_KEY, PROBLEM, SiteSurvey
from trainwright.plugins.registry import Registry

ACCOUNT = "system:serviceaccount:kubeflow-system:manager"
ALL_GATES = "Explain=true,TrainJobStatus=true,ProgressPull=true"


class Cluster(ScriptedTransport):
    """A cluster with a manager and its roles, and nothing else."""

    def __init__(self, *arguments: str, configuration: Document | None = None, home: str = "kubeflow-system") -> None:
        super().__init__()
        self.manager = deployment(namespace=home)
        self.manager["spec"]["template"]["spec"]["containers"][0]["args"] += arguments
        self.configuration = configuration
        self.granted: list[Document] = []
        """The roles that are bound to the manager's account."""
        self.hidden = ""
        """The plural of what may not be read."""
        self.questions: list[dict[str, Any]] = []
        self.at_once = self.most_at_once = 0

    async def send(self, request: Request) -> Response:
        if request.path.endswith("/subjectaccessreviews"):
            return await self._review(msgspec.json.decode(request.body or b"")["spec"])
        if request.method != "GET":
            return _answer(status_body(404, "NotFound"), 404)
        if self.hidden and request.path.endswith(f"/{self.hidden}"):
            return _answer(status_body(403, "Forbidden", f"{self.hidden} is forbidden"), 403)
        data = {CONFIGURATION_KEY: dump(self.configuration)} if self.configuration is not None else {}
        answers = {
            "version": {"gitVersion": "v1.36.3"},
            "apis": {"groups": []},
            "deployments": listing("1", self.manager),
            "configmaps": listing("1", {"metadata": {"name": CONFIGURATION}, "data": data}),
        }
        return _answer(answers.get(request.path.rpartition("/")[2], listing("1")))

    async def _review(self, spec: dict[str, Any]) -> Response:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        asked = spec["resourceAttributes"]
        self.questions.append(asked)
        allowed = any(_grants(role, asked) for role in self.granted)
        return _answer({"apiVersion": "authorization.k8s.io/v1", "spec": spec, "status": {"allowed": allowed}}, 201)

    async def examine(self) -> tuple[SiteSurvey, list[str]]:
        """What is found, and the lines about rights."""
        site = await gather(Client(self), PIPELINE, needed_rights, {}, None)
        told = text_of([one for one in examine(site) if one.title == "rights of the manager"])
        return site, [line for line in told.splitlines() if "may not" in line]


def _answer(body: Any, status: int = 200) -> Response:
    return Response(status, {}, msgspec.json.encode(body))


def _grants(role: Document, asked: dict[str, Any]) -> bool:
    """As RBAC decides."""
    place = role["metadata"].get("namespace", "")
    if place and place != asked.get("namespace"):
        return False
    resource = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
    return any(
        asked.get("group", "") in rule["apiGroups"]
        and resource in rule["resources"]
        and asked["verb"] in rule["verbs"]
        and ("resourceNames" not in rule or asked.get("name") in rule["resourceNames"])
        for rule in role["rules"]
    )


def _asked(rule: Document, verb: str, role: Document) -> dict[str, Any]:
    (group,), (whole,) = rule["apiGroups"], rule["resources"]
    resource, _, subresource = whole.partition("/")
    name, place = (rule.get("resourceNames") or [""])[0], role["metadata"].get("namespace", "")
    return {
        "group": group,
        "resource": resource,
        "subresource": subresource,
        "verb": verb,
        "name": name,
        "namespace": place,
    }


def needed(gates: str = "", home: str = "kubeflow-system", **sections: Any) -> Rights:
    from trainwright.api.config.v1alpha1 import Configuration  # noqa: PLC0415
    from trainwright.controller.cli.arguments.values import gates as parse_gates  # noqa: PLC0415

    document = {"featureGates": parse_gates(gates), **sections}
    settings = settings_of(msgspec.convert(document, Configuration))
    return rights(settings, Registry.load(settings.plugins), home)


CONFIGURATION_WITH_ALL = {"leaderElection": {"leaderElect": True}, "featureGates": {}}


@pytest.mark.parametrize("gates", ["", ALL_GATES])
@pytest.mark.parametrize("only", ["", "team", "kubeflow-system"])
async def test_the_roles_that_rbac_prints_are_enough(gates: str, only: str) -> None:
    options = [f"--feature-gates={gates}"] if gates else []
    cluster = Cluster(*options, *([f"--namespace={only}"] if only else []), configuration=CONFIGURATION_WITH_ALL)
    cluster.granted = list(roles(needed(gates, leaderElection={"leaderElect": True}), only))
    site, lines = await cluster.examine()
    assert (site.denied, site.denied_in, lines) == ([], {}, [])
    assert len(cluster.questions) < 120
    assert len({msgspec.json.encode(one, order="sorted") for one in cluster.questions}) == len(cluster.questions)
    assert cluster.most_at_once <= 8


@pytest.mark.parametrize("only", ["", "team"])
async def test_every_right_that_is_taken_away_is_missed_where_it_was(only: str) -> None:
    granted = list(roles(needed(ALL_GATES, leaderElection={"leaderElect": True}), only))
    configuration = {
        "leaderElection": {"leaderElect": True},
        "featureGates": {"Explain": True, "TrainJobStatus": True, "ProgressPull": True},
    }
    for place, role in enumerate(granted):
        for index, rule in enumerate(role["rules"]):
            cluster = Cluster(*([f"--namespace={only}"] if only else []), configuration=configuration)
            without = {**role, "rules": [*role["rules"][:index], *role["rules"][index + 1 :]]}
            cluster.granted = [*granted[:place], without, *granted[place + 1 :]]
            _, lines = await cluster.examine()
            (group,), (resource,), names = rule["apiGroups"], rule["resources"], rule.get("resourceNames")
            kind = f"{resource}.{group}" if group else resource
            where = f" in namespace {role['metadata']['namespace']}" if "namespace" in role["metadata"] else ""
            told = " ".join(line for line in lines if f" {kind}" in line and f"{where}, as the manager must" in line)
            # Another rule may grant some of the verbs, without names.
            others = {
                verb for verb in rule["verbs"] if any(_grants(one, _asked(rule, verb, role)) for one in cluster.granted)
            }
            assert others != set(rule["verbs"])
            assert all(verb in told for verb in set(rule["verbs"]) - others), (rule, lines)
            assert all(name in told for name in names or ())


async def test_the_rights_in_the_managers_own_namespace_are_asked_for_there() -> None:
    cluster = Cluster(configuration=CONFIGURATION_WITH_ALL, home="ml")
    everywhere, *own = roles(needed(home="ml", leaderElection={"leaderElect": True}))
    assert [role["metadata"]["namespace"] for role in own] == ["ml"]
    cluster.granted = [everywhere]
    site, lines = await cluster.examine()
    assert site.account == "ml/manager"
    assert any("leases.coordination.k8s.io trainer.kubeflow.org in namespace ml," in line for line in lines)
    assert any("secrets" in x and "in namespace ml" in x for x in lines)
    assert "apply the roles that `trainwright rbac --namespace ml --config FILE` prints" in text_of(examine(site))


async def test_a_configuration_that_cannot_be_read_is_not_taken_for_none() -> None:
    cluster = Cluster(configuration=CONFIGURATION_WITH_ALL)
    cluster.granted = [{"metadata": {}, "rules": []}]
    cluster.hidden = "configmaps"
    site, _ = await cluster.examine()
    (found,) = [one for one in examine(site) if one.title == "rights of the manager"]
    assert {finding.severity for finding in found.findings} == {PROBLEM}
    assert found.unread


def test_a_plugin_that_is_not_installed_here_is_said() -> None:
    site = sound()
    site.configuration = {"plugins": {"enabled": ["no-such-plugin"]}}
    with pytest.raises(Exception, match="no-such-plugin"):
        needed_rights(site.survey())


def test_the_names_of_a_rule_are_told() -> None:
    site = sound()
    site.denied_in = {"kubeflow-system": [(Rule("", "secrets", ("get",), ("cert",)), "get")]}
    text = text_of(examine(site))
    assert "may not get secrets cert in namespace kubeflow-system, as the manager must" in text
