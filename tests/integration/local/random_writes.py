# SPDX-License-Identifier: Apache-2.0
"""Random objects and patches, made of what the rows of `writes.json` hold and of anything else."""

import functools
import json
from random import Random
from typing import Any

from tests.integration.local.writes import WRITES, Document, changed

_SCALARS: list[Any] = ["a", "", 1, 1.5, 2.0, True, None, {}, [], "ab", 3, -7, 2**40, "x" * 5]


@functools.cache
def groups() -> dict[str, Document]:
    """The groups of the file."""
    found: dict[str, Document] = json.loads(WRITES.read_text())
    return found


def wild(random: Random, depth: int = 0) -> Any:
    """Any JSON value."""
    if depth > 2 or random.random() < 0.6:
        return random.choice(_SCALARS)
    if random.random() < 0.5:
        return [wild(random, depth + 1) for _ in range(random.randint(0, 3))]
    names = random.sample(["a", "b", "name", "port", "protocol", "x", "apiVersion", "kind"], random.randint(0, 4))
    return {name: wild(random, depth + 1) for name in names}


def random_object(random: Random, group: str, wildness: float = 0.15, base: Document | None = None) -> Document:
    """The object of a group with several of its creations at once, of which some set any value.

    Args:
        random: decides.
        group: of `writes.json`.
        wildness: the share of values that may be anything.
        base: another object to change.
    """
    rows = groups()[group]
    changes = [one for one in rows["create"].values() if all(path.startswith("spec.") for path in one)]
    made: Document = {}
    for change in random.sample(changes, random.randint(1, 6)):
        made |= {path: wild(random) if random.random() < wildness else value for path, value in change.items()}
    if random.random() < wildness:
        made["spec.unknown"] = wild(random)
    found: Document = json.loads(json.dumps(changed(base or rows["object"], made)))
    return found


class Patches:
    """Random strategic merge patches of a PodTemplate, with every directive, and with mistakes.

    Kubernetes goes through a patch in the order of a Go map. So no scalar is both deleted and added here.
    """

    def __init__(self, random: Random) -> None:
        self._random = random

    def patch(self) -> Document:
        """The next one."""
        metadata: Document = {"labels": self._labels()} if self._chance(0.4) else {}
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
        return {key: make() for key, make in makers.items() if self._chance(0.4)}

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
