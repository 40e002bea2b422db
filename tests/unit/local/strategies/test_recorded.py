# SPDX-License-Identifier: Apache-2.0
"""Kinds that nothing here acts on: the recorded table, and what is made of it."""

from typing import Any

import pytest

from tests.cases import cases
from trainwright.controller.local.apiserver.kinds.built_in import ACTED_ON, built_in_kinds
from trainwright.controller.local.apiserver.schema.published.kinds import recorded
from trainwright.controller.local.apiserver.views.cells import CELLS
from trainwright.controller.local.apiserver.views.tables import table_format
from trainwright.controller.local.types.model import published_models

CASES = cases(__file__)

Document = dict[str, Any]

KINDS = {(kind.api_version, kind.kind): kind for kind in built_in_kinds(for_others=False)}
OTHERS = [kind for kind in KINDS.values() if kind.kind not in ACTED_ON]


def test_every_kind_has_a_model_and_columns_that_can_be_read() -> None:
    for kind in recorded().kinds:
        assert kind.model in published_models()
        assert set(CELLS.get(kind.kind, {})) <= {column.name for column in kind.columns}, kind.kind
        assert table_format(KINDS[kind.api_version, kind.kind]).columns


def test_hooks_are_of_kinds_that_are_served() -> None:
    assert {kind.kind for kind in KINDS.values()} >= ACTED_ON
    assert len(OTHERS) >= 30


@pytest.mark.parametrize("kind", OTHERS, ids=lambda kind: f"{kind.api_version} {kind.kind}")
def test_who_creates_an_object_is_told_that_nothing_acts_on_it(kind: Any) -> None:
    document: Document = {"metadata": {"name": "a"}}
    kind.strategy.default(document)
    told = f"{kind.kind} is stored, but nothing in this cluster acts on it"
    assert kind.strategy.undone(document) == [told]


@pytest.mark.parametrize("rbac", [False, True])
def test_what_is_told_where_controllers_come_from_elsewhere(rbac: bool) -> None:
    """Only what kube-apiserver itself would act on is not done then."""
    kinds = built_in_kinds(for_others=True, rbac=rbac)
    told = {one.kind for one in kinds if one.strategy.undone({"metadata": {"name": "a"}})}
    roles = {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
    assert {"ResourceQuota", "PodDisruptionBudget"} <= told
    assert not {"Deployment", "Pod", "Service"} & told
    assert told & roles == (set() if rbac else roles)


@pytest.mark.parametrize(("kind", "spec", "told"), CASES["fields_that_nothing_acts_on"])
def test_fields_that_nothing_acts_on(kind: str, spec: Document, told: list[str]) -> None:
    [found] = [one for one in KINDS.values() if one.kind == kind]
    document = {"metadata": {"name": "a"}, "spec": spec}
    texts = found.strategy.undone(document)
    assert len(texts) == len(told)
    assert all(text.startswith(start) for text, start in zip(texts, told, strict=True))
    document["metadata"] = {"ownerReferences": [{"controller": True}]}
    assert found.strategy.undone(document) == []
