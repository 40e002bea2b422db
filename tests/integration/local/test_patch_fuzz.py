# SPDX-License-Identifier: Apache-2.0
"""Random strategic merge patches on one object: ours beside those of the real API server.

Kubernetes goes through a patch in the order of a Go map. So no scalar is both deleted and added here, and of a patch
with mistakes only the refusal is compared.
"""

import json
import random
from typing import Any

from tests.integration.local.test_local_patches import STRATEGIC, compare
from trainwright.controller.runtime import HTTPTransport, load_config
from trainwright.controller.runtime.testing import ControlPlane

Document = dict[str, Any]

CASES = 200


class Patches:
    """Random patches of a PodTemplate, with every directive, and with mistakes."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def patch(self) -> Document:
        metadata = self._map({"labels": self._labels, "finalizers": lambda: None})
        self._scalars(metadata, "finalizers", [f"example.com/{letter}" for letter in "abc"])
        spec: Document = {}
        self._items(spec, "containers", "name", "cde", self._container)
        self._items(spec, "volumes", "name", "vwx", self._volume)
        if self._chance(0.2):
            spec["nodeSelector"] = self._labels()
        self._directive(spec)
        return {"metadata": metadata, "template": {"metadata": {"labels": self._labels()}, "spec": spec}}

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _some(self, values: Any) -> list[Any]:
        chosen = [value for value in values if self._chance(0.5)]
        self._random.shuffle(chosen)
        return chosen

    def _map(self, makers: dict[str, Any]) -> Document:
        made = {key: make() for key, make in makers.items() if self._chance(0.4)}
        return {key: value for key, value in made.items() if value is not None}

    def _directive(self, made: Document) -> None:
        if self._chance(0.03):
            made["$patch"] = self._random.choice(["delete", "replace", "merge", "x"])
        if self._chance(0.05):
            made["$retainKeys"] = self._some([*made, "name", "image", "containers"])

    def _labels(self) -> Document:
        made: Document = {key: self._random.choice(["1", "2", None]) for key in self._some("lmn")}
        self._directive(made)
        return made

    def _scalars(self, made: Document, field: str, values: list[str]) -> None:
        if self._chance(0.4):
            made[field] = self._some(values)
        if self._chance(0.3):
            deleted = self._some(values)
            made[f"$deleteFromPrimitiveList/{field}"] = [one for one in deleted if one not in made.get(field, ())]
        self._order(made, field, values)

    def _items(self, made: Document, field: str, key: str, keys: Any, maker: Any) -> None:
        if self._chance(0.6):
            made[field] = [self._item(key, value, maker) for value in self._some(keys)]
            if self._chance(0.03):
                made[field].append({"$patch": "replace"})
        self._order(made, field, [{key: value} for value in keys])

    def _order(self, made: Document, field: str, items: list[Any]) -> None:
        # An order of nothing, which kubectl never sends, is one of the differences.
        if self._chance(0.3) and (order := self._some(items)):
            made[f"$setElementOrder/{field}"] = order

    def _item(self, key: str, value: Any, maker: Any) -> Document:
        if self._chance(0.15):
            return {key: value, "$patch": "delete"}
        made = {key: value, **maker()}
        if self._chance(0.02):
            del made[key]
        self._directive(made)
        return made

    def _container(self) -> Document:
        made = self._map({"image": lambda: "example/x:1", "args": lambda: self._some("abc")})
        self._items(made, "env", "name", "ABCD", lambda: self._map({"value": lambda: "v"}))
        self._items(made, "ports", "containerPort", (80, 81, 82), lambda: self._map({"name": lambda: "p"}))
        if self._chance(0.2):
            made["resources"] = {"limits": {"cpu": self._random.choice(["1", None])}}
        return made

    def _volume(self) -> Document:
        return self._map({"emptyDir": dict, "hostPath": lambda: {"path": "/x"}})


async def test_random_patches(control_plane: ControlPlane, namespace: str) -> None:
    patches = Patches(seed=1)
    transport = HTTPTransport(load_config(control_plane.kubeconfig))
    try:
        cases = [("podtemplates", STRATEGIC, json.dumps(patches.patch()).encode()) for _ in range(CASES)]
        different = await compare(transport, namespace, cases)
        assert not [case for case in different if not all(answer["kind"] == "Status" for answer in case[1:])]
        # Most patches are right, or the test shows little.
        assert len(different) < CASES / 10
    finally:
        await transport.close()
