# SPDX-License-Identifier: Apache-2.0
"""The CustomResourceDefinitions have the structure that clients of this API know.

crd-structure/ holds it, recorded from Kubeflow Trainer: no descriptions, and the number of rules in place of their
texts; that of OptimizationJobs has the texts, and none of our columns.
"""

import json
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest
from deepdiff import DeepDiff

from trainwright.codegen import catalog, crd
from trainwright.codegen.catalog import Catalog
from trainwright.codegen.definition import Problems

ROOT = Path(__file__).resolve().parents[3]
RECORDED = Path(__file__).with_name("crd-structure")
KINDS = {
    "trainjobs": "trainer.kubeflow.org/v1alpha1/TrainJob",
    "trainingruntimes": "trainer.kubeflow.org/v1alpha1/TrainingRuntime",
    "clustertrainingruntimes": "trainer.kubeflow.org/v1alpha1/ClusterTrainingRuntime",
    "optimizationjobs": "trainer.kubeflow.org/v1alpha1/OptimizationJob",
    "jobsets": "jobset.x-k8s.io/v1alpha2/JobSet",
    "scheduler-plugins-podgroups": "scheduling.x-k8s.io/v1alpha1/PodGroup",
    "volcano-podgroups": "scheduling.volcano.sh/v1beta1/PodGroup",
}
REPLICAS = (
    "root['versions'][0]['schema']['openAPIV3Schema']['properties']['spec']['properties']['replicatedJobs']['items']"
    "['properties']['replicas']['minimum']"
)


@pytest.fixture(scope="module")
def known() -> Catalog:
    return catalog.read(ROOT / "api", Problems())


def structure(value: Any) -> Any:
    """Without descriptions, and with the number of rules in their place."""
    if isinstance(value, list):
        return [structure(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        word: len(inner) if word == "x-kubernetes-validations" and isinstance(inner, list) else structure(inner)
        for word, inner in value.items()
        if not (word == "description" and isinstance(inner, str))
    }


def recorded_structure(name: str) -> Any:
    """As recorded. One recording serves both kinds of runtimes: they differ in names and scope alone."""
    if name == "optimizationjobs":
        found = json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8"))
        spec = ("versions", 0, "schema", "openAPIV3Schema", "properties", "spec")
        template = reduce(getitem, (*spec, "properties", "trainJobTemplate", "properties"), found)
        template["spec"] = reduce(getitem, spec, recorded_structure("trainjobs"))
        return found
    if name != "clustertrainingruntimes":
        return json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8"))
    names = {
        "kind": "ClusterTrainingRuntime",
        "listKind": "ClusterTrainingRuntimeList",
        "plural": name,
        "singular": "clustertrainingruntime",
    }
    return recorded_structure("trainingruntimes") | {"names": names, "scope": "Cluster"}


def difference(known: Catalog, name: str) -> DeepDiff:
    recorded = recorded_structure(name)
    made = structure(crd.render(known, known.kinds[KINDS[name]])["spec"])
    return DeepDiff(recorded, made) if recorded != made else DeepDiff({}, {})


@pytest.mark.parametrize("name", [name for name in KINDS if name not in ("trainjobs", "optimizationjobs", "jobsets")])
def test_same_structure(known: Catalog, name: str) -> None:
    assert difference(known, name) == {}


def test_trainjobs_differ_in_their_columns_only(known: Catalog) -> None:
    recorded = recorded_structure("trainjobs")
    made = structure(crd.render(known, known.kinds[KINDS["trainjobs"]])["spec"])
    before, now = (spec["versions"][0].pop("additionalPrinterColumns") for spec in (recorded, made))
    assert recorded == made
    assert [column["name"] for column in before] == ["State", "Age"]
    assert [column["name"] for column in now] == ["State", "Progress", "Reported", "ETA", "Age"]
    assert now[0]["jsonPath"] == '.status.conditions[?(@.status=="True")].type'
    assert now[-1] == before[-1]


def test_optimizationjobs_differ_in_their_columns_only(known: Catalog) -> None:
    rendered = crd.render(known, known.kinds[KINDS["optimizationjobs"]])["spec"]
    columns = rendered["versions"][0].pop("additionalPrinterColumns")
    recorded = recorded_structure("optimizationjobs")
    assert structure(rendered) == structure(recorded)
    assert rules(rendered) == rules(recorded) != []
    assert [column["name"] for column in columns] == ["Trials", "Running", "Failed", "Best", "Age"]


def rules(value: Any) -> list[tuple[str, str]]:
    """Texts and messages of all rules, in any order, except for those of the TrainJob in the template."""
    if isinstance(value, list):
        return sorted(rule for item in value for rule in rules(item))
    if not isinstance(value, dict):
        return []
    below = (rule for name, inner in value.items() if name != "trainJobTemplate" for rule in rules(inner))
    own = value.get("x-kubernetes-validations", ())
    return sorted([*((one["rule"], one["message"]) for one in own), *below])


def test_jobsets_differ_in_a_limit_that_runtimes_do_not_have(known: Catalog) -> None:
    # Runtimes embed the JobSetSpec without this limit; JobSet's own definition, which we do not install, has it.
    assert difference(known, "jobsets") == {"dictionary_item_removed": [REPLICAS]}


def test_only_our_kinds_are_installed(known: Catalog) -> None:
    assert sorted(crd.files(known)) == [
        "kustomization.yaml",
        "trainer.kubeflow.org_clustertrainingruntimes.yaml",
        "trainer.kubeflow.org_optimizationjobs.yaml",
        "trainer.kubeflow.org_trainingruntimes.yaml",
        "trainer.kubeflow.org_trainjobs.yaml",
    ]


def test_small_enough_to_be_applied(known: Catalog) -> None:
    # etcd takes 1.5 MiB, and kubectl's client-side apply would put a quarter of a MiB into an annotation.
    for kind in known.kinds.values():
        if kind.installed:
            assert len(json.dumps(crd.render(known, kind))) < 300_000
