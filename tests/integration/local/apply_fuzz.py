# SPDX-License-Identifier: Apache-2.0
"""Random sequences of applies and updates, through our field manager and through Kubernetes' own.

Both are given the same object at each step; what ours makes of it, once it was found equal, is the next step's object.
Conflicts are compared with their texts, other errors by code and reason.
"""

import copy
import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any

from tests.integration.local.documents import GROUP, KIND, Documents, Schemas, custom_resource_models, version
from tests.integration.local.oracle import Answer, Oracle
from trainwright.controller.local.apiserver.errors import StatusError
from trainwright.controller.local.apiserver.merge import fieldset
from trainwright.controller.local.apiserver.merge.fieldmanager import ANNOTATION, FieldManager
from trainwright.controller.local.types.model import Types
from trainwright.controller.local.values import json_text

# Later than what the objects hold, as the oracle's own clock is.
NOW = datetime(2050, 1, 1, tzinfo=UTC)
_NOW = "2050-01-01T00:00:00Z"


@dataclass
class Findings:
    """What a run met, and where ours was wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def normal(answer: Answer) -> str:
    """An answer in one form: causes by manager; of errors without causes code and reason alone."""
    error = answer.get("error")
    if error is not None:
        if causes := error.get("causes"):
            error = {**error, "causes": sorted(causes, key=lambda cause: cause["message"])}
        else:
            error = {key: error[key] for key in ("code", "reason") if error.get(key)}
        answer = {"error": error}
    return json_text(json.loads(json.dumps(answer)))


def ours(request: dict[str, Any], types: Types) -> tuple[Answer, dict[str, Any] | None]:
    """Our answer to a case, in the oracle's form, and the object made."""
    reset = fieldset.read(request["reset"].get(request["apiVersion"], {}))
    manager = FieldManager(
        types.named(f"example.test.{request['apiVersion'].partition('/')[2]}.{KIND}"),
        request["apiVersion"],
        KIND,
        subresource=request["subresource"],
        reset=reset,
    )
    try:
        if request["op"] == "apply":
            made = manager.apply(request["live"], request["new"], request["manager"], force=request["force"], now=NOW)
        else:
            made = manager.update(request["live"], request["new"], request["manager"], now=NOW)
    except StatusError as error:
        said: dict[str, Any] = {"text": str(error), **(error.details or {})}
        if error.reason:
            said |= {"code": error.code, "reason": error.reason}
        return {"error": said}, None
    return _told(made), made


def _told(made: dict[str, Any]) -> Answer:
    told = copy.deepcopy(made)
    entries = told.get("metadata", {}).pop("managedFields", [])
    for entry in entries:
        entry.setdefault("manager", "")
        entry.setdefault("subresource", "")
        # As text, because the order counts; Go escapes only what JSON must in the keys of a set.
        entry["fieldsV1"] = json.dumps(entry["fieldsV1"], ensure_ascii=False, separators=(",", ":"))
        if entry.get("time") == _NOW:
            entry["time"] = "now"
    return {"object": told, "managedFields": entries}


class Sequence:
    """One object and what several managers do to it."""

    def __init__(self, oracle: Oracle, seed: int) -> None:
        self._oracle = oracle
        self._seed = seed
        self._random = Random(seed)
        self._schemas = Schemas(self._random)
        self._use(self._schemas.models())
        self._live: dict[str, Any] = {"apiVersion": version(1), "kind": KIND}
        self._reset: dict[str, Any] = {}
        if self._random.random() < 0.5:
            self._reset = {version(1): {"f:status": {}}}
        self._status_reset: dict[str, Any] = {version(1): {"f:metadata": {}, "f:spec": {}}} if self._reset else {}

    def _use(self, models: dict[str, Any]) -> None:
        self._models = models
        self._types = Types(models)
        self._documents = Documents(self._random, models)

    def run(self, findings: Findings) -> None:
        """Take random steps until one differs."""
        for step in range(self._random.randint(2, 9)):
            request = self._request(step)
            mine, made = ours(request, self._types)
            theirs = self._oracle.ask(**self._case(request))
            if normal(mine) not in map(normal, theirs):
                findings.wrong.append(self._told(step, request, mine, theirs))
                return
            findings.counts[self._kind_of(request, mine)] += 1
            if made is not None:
                self._live = self._aged(made, step)

    def _case(self, request: dict[str, Any]) -> dict[str, Any]:
        fixed = {"served": [version(1)], "forgotten": [], "kind": KIND, "repeat": 1}
        return {**request, **fixed, "schema": self._oracle.define(self._models)}

    def _told(self, step: int, request: dict[str, Any], mine: Answer, theirs: list[Answer]) -> str:
        parts = {"models": {k: v for k, v in self._models.items() if not k.startswith("io.k8s")}, "request": request}
        return f"seed {self._seed}, step {step}\n{json.dumps(parts)}\nours:   {normal(mine)}\n" + "\n".join(
            f"theirs: {normal(one)}" for one in theirs[:3]
        )

    @staticmethod
    def _kind_of(request: dict[str, Any], answer: Answer) -> str:
        outcome = "made"
        if (error := answer.get("error")) is not None:
            text = error["text"]
            outcome = (
                "conflict"
                if error.get("causes")
                else next(
                    (
                        words
                        for words in (
                            "not declared",
                            "duplicate entries",
                            "omits all key",
                            "expected",
                            "managedFields must",
                        )
                        if words in text
                    ),
                    "other error",
                )
            )
        return f"{request['op']}: {outcome}"

    def _aged(self, made: dict[str, Any], step: int) -> dict[str, Any]:
        """The object with its new times in the past, some of them the same."""
        made = copy.deepcopy(made)
        second = step if self._random.random() < 0.7 else 1
        for entry in made["metadata"].get("managedFields", ()):
            if entry.get("time") == _NOW:
                entry["time"] = f"2020-01-01T00:00:{second:02d}Z"
        made["metadata"].setdefault("uid", "u")
        entries = made["metadata"].get("managedFields")
        if entries and self._random.random() < 0.15:
            # Content without an owner, as a person leaves it who edits the managed fields.
            entries.remove(self._random.choice(entries))
        if self._random.random() < 0.1:
            annotations = made["metadata"].setdefault("annotations", {})
            if isinstance(annotations, dict):
                annotations[ANNOTATION] = self._last_applied(made)
        return made

    def _last_applied(self, made: dict[str, Any]) -> str:
        if self._random.random() < 0.1:
            return "no json"
        applied = copy.deepcopy(made)
        applied["metadata"] = {"name": "it"}
        if self._random.random() < 0.3:
            applied["apiVersion"] = version(2)
        if self._random.random() < 0.5:
            applied.pop("spec", None)
        return json.dumps(applied)

    def _request(self, step: int) -> dict[str, Any]:
        chance = self._random.random()
        subresource = "status" if step and chance < 0.15 else ""
        applies = self._random.random() < 0.6
        request: dict[str, Any] = {
            "op": "apply" if applies else "update",
            "apiVersion": version(1),
            "subresource": subresource,
            "reset": self._status_reset if subresource else self._reset,
            "live": self._live,
            "force": self._random.random() < 0.4,
        }
        if applies:
            request["manager"] = self._random.choice(["one", "two", "three", "kubectl", "kubectl", ""])
            request["new"] = self._applied()
        else:
            request["manager"] = self._random.choice(["one", "four", ""])
            request["new"] = self._updated(step)
        return request

    def _applied(self) -> dict[str, Any]:
        mistakes = self._random.choice([0, 0, 0, 0, 1, 2])
        made = self._documents.document(1, mistakes=mistakes, share=self._random.choice([0.3, 0.6, 0.9]))
        chance = self._random.random()
        if chance > 0.97:
            made["metadata"]["annotations"] = {ANNOTATION: "of before", "another": "one"}
        if chance < 0.01:
            made["metadata"]["managedFields"] = []
        elif chance < 0.02:
            made["apiVersion"] = self._random.choice(["v1", "a/b/c", version(3)])
        elif chance < 0.03:
            del made["kind"]
        elif chance < 0.3:
            # Something near what is there, so that conflicts and shared owners come about.
            spec = copy.deepcopy(self._live.get("spec"))
            if isinstance(spec, dict):
                made["spec"] = self._documents.edit({"metadata": {}, "spec": spec}, 1)["spec"]
        return made

    def _updated(self, step: int) -> dict[str, Any]:
        if not step or self._random.random() < 0.2:
            made = self._documents.document(1, mistakes=self._random.choice([0, 0, 0, 1]))
        else:
            made = self._documents.edit({"metadata": {}, **self._live}, 1)
        entries = copy.deepcopy(self._live.get("metadata", {}).get("managedFields"))
        if entries is not None and self._random.random() < 0.7:
            made["metadata"]["managedFields"] = entries
        chance = self._random.random()
        if chance < 0.04:
            made["metadata"]["managedFields"] = self._random.choice([[], [{}], [{"time": None}]])
        elif chance < 0.12:
            made["metadata"]["managedFields"] = self._odd_entries(entries or [])
        return made

    def _odd_entries(self, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Entries as a person may write them: odd spelling, odd sets, and some that cannot be read."""
        good: dict[str, Any] = {"operation": "Update", "apiVersion": version(1), "fieldsType": "FieldsV1"}
        spec = self._models[f"example.test.v1.{KIND}"]["properties"].get("spec", {})
        fields: dict[str, Any] = (
            {}
            if spec.get("x-kubernetes-map-type") == "atomic"
            else self._random.choice(
                [
                    {"f:spec": {"f:a": {}, "f:b": {".": {}, "f:c": {}}}, "f:metadata": {"f:labels": {"f:a": {}}}},
                    {"f:spec": {".": {}}, "x:unknown": {}},
                    {"f:spec": {'k:{"protocol":"TCP","port":80}': {}, "v:1.0": {}, 'v:"x"': {".": {}}, "i:0": {}}},
                    {"f:spec": {"f:a": {'k:{"name":"x"}': {"f:b": {}}, 'k:{"name":"y"}': {".": {}}}}},
                    {},
                ]
            )
        )
        odd = self._random.choice(
            [
                {**good, "manager": "odd", "fieldsV1": fields},
                {**good, "manager": "odd", "operation": "Apply", "fieldsV1": fields},
                {
                    **good,
                    "manager": "one",
                    "operation": "Apply",
                    "fieldsV1": fields,
                    "time": "2019-01-01T02:00:00+02:00",
                },
                {**good, "fieldsV1": fields},
                {**good, "manager": "odd"},
                {**good, "manager": "odd", "operation": "Delete", "fieldsV1": fields},
                {**good, "manager": "odd", "fieldsType": "V2", "fieldsV1": fields},
                {**good, "manager": "odd", "apiVersion": "", "fieldsV1": fields},
            ]
        )
        return [*entries, odd]


_PARTS: tuple[Any, ...] = (
    {},
    None,
    {"tags": []},
    {"x": "1"},
    {"x": "1", "tags": []},
    {"tags": ["p"]},
    {"c": [], "x": "2"},
)


class ListSequence(Sequence):
    """Little but lists with items of their own, in a few names: order, items that occur several times, empty values."""

    def __init__(self, oracle: Oracle, seed: int) -> None:
        super().__init__(oracle, seed)
        item = {"type": "object", "properties": {key: {"type": "string"} for key in ("name", "x", "y")}}
        keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
        spec: dict[str, Any] = {
            "a": {"type": "array", "items": item, **keyed},
            "b": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        }
        spec["c"] = {"type": "object", "properties": {"x": {"type": "string"}, "tags": spec["b"], "c": spec["a"]}}
        schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
        versions = [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]
        self._use(custom_resource_models({"group": GROUP, "names": {"kind": KIND}, "versions": versions}))
        self._reset = {}

    def _request(self, step: int) -> dict[str, Any]:
        applies = step > 0 and self._random.random() < 0.6
        spec: dict[str, Any] = {"a": [self._item(name) for name in self._names(applies)], "b": self._names(applies)}
        # What is applied is empty more often than what is there.
        spec["c"] = self._random.choice(_PARTS[:3] if applies else _PARTS)
        for name in ("a", "b", "c"):
            if applies and self._random.random() < 0.4:
                del spec[name]
        return {
            "op": "apply" if applies else "update",
            "apiVersion": version(1),
            "subresource": "",
            "reset": {},
            "live": self._live,
            "force": self._random.random() < 0.8,
            "manager": self._random.choice(["one", "two"]),
            "new": {"apiVersion": version(1), "kind": KIND, "metadata": {"name": "it", "uid": "u"}, "spec": spec},
        }

    def _names(self, distinct: bool) -> list[str]:
        names = [self._random.choice("pqrst") for _ in range(self._random.randint(0, 5))]
        return list(dict.fromkeys(names)) if distinct else names

    def _item(self, name: str) -> dict[str, str]:
        return {"name": name} | {key: self._random.choice("12") for key in "xy" if self._random.random() < 0.5}


def fuzz(oracle: Oracle, first: int, count: int) -> Findings:
    """Run sequences with seeds from `first` on, each of both kinds."""
    findings = Findings()
    for seed in range(first, first + count):
        Sequence(oracle, seed).run(findings)
        ListSequence(oracle, seed).run(findings)
    return findings


def fuzz_sets(oracle: Oracle, first: int, count: int) -> Findings:
    """Compare the algebra and the text of random sets."""
    findings = Findings()
    for seed in range(first, first + count):
        random = Random(seed)
        left, right = _set(random, 3), _set(random, 3)
        [theirs] = oracle.ask(op="set", left=left, right=right)
        one, two = fieldset.read(left), fieldset.read(right)
        made = {
            "left": one,
            "union": fieldset.union(one, two),
            "intersection": fieldset.intersection(one, two),
            "difference": fieldset.difference(one, two),
            "recursive": fieldset.recursive_difference(one, two),
        }
        mine: Answer = {name: _text_of(tree) for name, tree in made.items()}
        mine |= {"equal": one == two, "paths": "\n".join(map(fieldset.text, fieldset.paths(one)))}
        findings.counts["sets"] += 1
        theirs.pop("leaves")
        if mine != theirs:
            findings.wrong.append(f"seed {seed}: {json.dumps([left, right])}\nours:   {mine}\ntheirs: {theirs}")
    return findings


def _text_of(tree: fieldset.Tree) -> str:
    return json.dumps(fieldset.write(tree), ensure_ascii=False, separators=(",", ":"))


_ELEMENTS = (
    "f:a",
    "f:b",
    "f:a.b",
    "f:ü",
    'f:"',
    "f:",
    'k:{"name":"a"}',
    'k:{"name":"b"}',
    'k:{"port":80,"protocol":"TCP"}',
    'k:{"protocol":"TCP","port":80}',
    'k:{"port":8.0e1,"protocol":"UDP"}',
    'k:{"port":12345}',
    'k:{"name":null}',
    'k:{"on":true}',
    'k:{"name":"<&>"}',
    "k:{}",
    'v:"x"',
    "v:1",
    "v:1.0",
    "v:10",
    "v:1.5",
    "v:true",
    "v:null",
    "v:[1]",
    "i:0",
    "i:10",
    "i:2",
    "z:later",
)


def _set(random: Random, depth: int) -> dict[str, Any]:
    if depth == 0 or random.random() < 0.2:
        return {}
    made = {element: _set(random, depth - 1) for element in random.sample(_ELEMENTS, random.randint(0, 5))}
    if random.random() < 0.4:
        made["."] = {}
    return made
