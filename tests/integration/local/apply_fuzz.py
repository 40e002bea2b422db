# SPDX-License-Identifier: Apache-2.0
"""Random sequences of applies and updates, through our field manager and through Kubernetes' own.

Both are given the same object at each step; what ours makes of it, once it was found equal, is the next step's object.
Where Kubernetes' answer depends on the order of a Go map (several errors in one document), it is asked many times, and
ours must be one of its answers.
"""

import copy
import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any

from tests.integration.local.documents import GROUP, KIND, Documents, Schemas, version
from tests.integration.local.oracle import Answer, Oracle
from trainwright.controller.local.apiserver.merge.apply import fieldset, naming
from trainwright.controller.local.apiserver.merge.apply.crd import custom_resource_models
from trainwright.controller.local.apiserver.merge.apply.errors import ApplyError, ConflictError, MissingVersionError
from trainwright.controller.local.apiserver.merge.apply.extraction import extract
from trainwright.controller.local.apiserver.merge.apply.fieldmanager import FieldManager
from trainwright.controller.local.apiserver.merge.apply.lastapplied import ANNOTATION
from trainwright.controller.local.apiserver.merge.apply.openapi import Types
from trainwright.controller.local.apiserver.merge.apply.validation import UnfitError, check
from trainwright.controller.local.apiserver.merge.apply.values import json_text
from trainwright.controller.local.apiserver.merge.apply.versions import Convert, same_schema

# Later than what the objects hold, as the oracle's own clock is.
NOW = datetime(2050, 1, 1, tzinfo=UTC)
_NOW = "2050-01-01T00:00:00Z"
_SERVED = [version(1), version(2)]
_TRIES = 400


@dataclass
class Findings:
    """What a run met, and where ours was wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def normal(answer: Answer) -> str:
    """An answer in one form: causes by manager, and errors sorted, since theirs come in the order of a Go map."""
    error = answer.get("error")
    if error is not None:
        before, several, problems = error["text"].partition("errors:\n")
        error = {**error, "text": before + several + "\n".join(sorted(problems.split("\n")))}
        if error.get("causes"):
            error["causes"] = sorted(error["causes"], key=lambda cause: cause["message"])
        answer = {"error": error}
    return json_text(json.loads(json.dumps(answer)))


def _is_mixture(mine: Answer, theirs: list[Answer]) -> bool:
    """Whether ours are problems of theirs, where several undeclared fields each end the search at a random point.

    There are then more answers than can be asked for.
    """
    text = mine.get("error", {}).get("text", "")
    if text.count("field not declared in schema") < 2:
        return False
    known = {line for answer in theirs for line in answer.get("error", {}).get("text", "").split("\n")}
    return all(line in known for line in text.split("\n"))


def ours(request: dict[str, Any], types: Types) -> tuple[Answer, dict[str, Any] | None]:
    """Our answer to a case, in the oracle's form, and the object made."""
    reset = {one: fieldset.read(fields) for one, fields in request["reset"].items()}
    manager = FieldManager(
        types,
        request["apiVersion"],
        KIND,
        subresource=request["subresource"],
        reset=reset,
        convert=_conversion(request),
    )
    try:
        if request["op"] == "apply":
            made = manager.apply(request["live"], request["new"], request["manager"], force=request["force"], now=NOW)
        else:
            made = manager.update(request["live"], request["new"], request["manager"], now=NOW)
    except ConflictError as error:
        causes = [{"reason": one.reason, "message": one.message, "field": one.field} for one in error.causes]
        return {"error": {"text": str(error), "code": error.code, "reason": error.reason, "causes": causes}}, None
    except ApplyError as error:
        said: dict[str, Any] = {"text": str(error)}
        if error.reason:
            said |= {"code": error.code, "reason": error.reason}
        return {"error": said}, None
    return _told(made), made


def _conversion(request: dict[str, Any]) -> Convert:
    """As for custom resources, but for versions that are not known at all, as those of a built-in kind may be."""
    served = same_schema(*request["served"])

    def convert(document: dict[str, Any], wanted: str) -> dict[str, Any]:
        if wanted in request["forgotten"]:
            raise MissingVersionError(wanted)
        return served(document, wanted)

    return convert


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
        # With a second version, an object with repeated items can no longer be converted, and every step fails.
        self._second = self._random.choice([0.0, 0.0, 0.3])
        self._live: dict[str, Any] = {"apiVersion": version(1), "kind": KIND}
        self._reset: dict[str, Any] = {}
        if self._random.random() < 0.5:
            self._reset = {one: {"f:status": {}} for one in _SERVED}
        self._status_reset: dict[str, Any] = (
            {one: {"f:metadata": {}, "f:spec": {}} for one in _SERVED} if self._reset else {}
        )

    def _use(self, models: dict[str, Any]) -> None:
        self._models = models
        self._types = Types(models)
        self._documents = Documents(self._random, models)

    def run(self, findings: Findings) -> None:
        """Take random steps until one differs."""
        for step in range(self._random.randint(2, 9)):
            if step and self._random.random() < 0.08:
                self._use(self._schemas.changed(self._models))
                findings.counts["schema changed"] += 1
            request = self._request(step)
            mine, made = ours(request, self._types)
            theirs = self._oracle.ask(**self._case(request, 1))
            if normal(mine) not in map(normal, theirs):
                theirs = self._oracle.ask(**self._case(request, _TRIES))
                if normal(mine) not in map(normal, theirs) and not _is_mixture(mine, theirs):
                    findings.wrong.append(self._told(step, request, mine, theirs))
                    return
                findings.counts["one of several answers"] += 1
            findings.counts[self._kind_of(request, mine)] += 1
            if made is not None:
                self._live = self._aged(made, step)

    def _case(self, request: dict[str, Any], repeat: int) -> dict[str, Any]:
        return {**request, "schema": self._oracle.define(self._models), "kind": KIND, "repeat": repeat}

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
        number = 2 if self._random.random() < self._second else 1
        chance = self._random.random()
        subresource = "status" if step and chance < 0.15 else ""
        applies = self._random.random() < 0.6
        request: dict[str, Any] = {
            "op": "apply" if applies else "update",
            "apiVersion": version(number),
            "subresource": subresource,
            "served": _SERVED if self._random.random() < 0.97 else [version(number)],
            "forgotten": [version(3 - number)] if self._random.random() < 0.05 else [],
            "reset": self._status_reset if subresource else self._reset,
            "live": {**self._live, "apiVersion": version(number)},
            "force": self._random.random() < 0.4,
        }
        if applies:
            request["manager"] = self._random.choice(["one", "two", "three", "kubectl", "kubectl", ""])
            request["new"] = self._applied(number)
        else:
            many = self._random.random() < 0.3
            names = [f"updater-{index}" for index in range(16)] + ["updater-1!"] if many else ["one", "four", ""]
            request["manager"] = self._random.choice(names)
            request["new"] = self._updated(number, step)
        return request

    def _applied(self, number: int) -> dict[str, Any]:
        mistakes = self._random.choice([0, 0, 0, 0, 1, 2])
        made = self._documents.document(number, mistakes=mistakes, share=self._random.choice([0.3, 0.6, 0.9]))
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
                made["spec"] = self._documents.edit({"metadata": {}, "spec": spec}, number)["spec"]
        return made

    def _updated(self, number: int, step: int) -> dict[str, Any]:
        if not step or self._random.random() < 0.2:
            made = self._documents.document(number, mistakes=self._random.choice([0, 0, 0, 1]))
        else:
            made = self._documents.edit({"metadata": {}, **self._live}, number)
        entries = copy.deepcopy(self._live.get("metadata", {}).get("managedFields"))
        if entries is not None and self._random.random() < 0.7:
            made["metadata"]["managedFields"] = entries
        chance = self._random.random()
        if chance < 0.04:
            made["metadata"]["managedFields"] = self._random.choice([[], [{}], [{"time": None}]])
        elif chance < 0.12:
            made["metadata"]["managedFields"] = self._odd_entries(entries or [])
        elif chance < 0.14:
            made["metadata"]["managedFields"] = self._many_entries()
        return made

    def _odd_entries(self, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Entries as a person may write them: odd spelling, odd sets, and some that cannot be read."""
        good: dict[str, Any] = {"operation": "Update", "apiVersion": version(1), "fieldsType": "FieldsV1"}
        fields: dict[str, Any] = self._random.choice(
            [
                {"f:spec": {"f:a": {}, "f:b": {".": {}, "f:c": {}}}, "f:metadata": {"f:labels": {"f:a": {}}}},
                {"f:spec": {".": {}}, "x:unknown": {}},
                {"f:spec": {'k:{"protocol":"TCP","port":80}': {}, "v:1.0": {}, 'v:"x"': {".": {}}, "i:0": {}}},
                {"f:spec": {"f:a": {'k:{"name":"x"}': {"f:b": {}}, 'k:{"name":"y"}': {".": {}}}}},
                {},
            ]
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
                {**good, "manager": "odd", "apiVersion": version(3), "fieldsV1": fields},
                {**good, "manager": 5},
                {**good, "manager": "odd", "time": "yesterday", "fieldsV1": fields},
            ]
        )
        return [*entries, odd]

    def _many_entries(self) -> list[dict[str, Any]]:
        """More updaters than there may be, with times that are the same now and then."""
        made = []
        for index in self._random.sample(range(20), 14):
            # By the name alone, the second sorts behind the one whose name it begins with.
            name = {3: "ancient-changes", 4: "updater-5!"}.get(index, f"updater-{index}")
            made.append(
                {
                    "manager": name,
                    "operation": "Update",
                    "apiVersion": version(2 if self._random.random() < self._second else 1),
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:metadata": {"f:labels": {f"f:{index}": {}}}},
                    "time": f"2019-01-01T00:00:{self._random.randint(0, 9):02d}Z",
                }
            )
        return made


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
            "served": [version(1)],
            "forgotten": [],
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
            "leaves": fieldset.leaves(one),
        }
        mine: Answer = {name: _text_of(tree) for name, tree in made.items()}
        mine |= {"equal": one == two, "paths": "\n".join(map(fieldset.text, fieldset.paths(one)))}
        findings.counts["sets"] += 1
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
    'k:{"port":12345678}',
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


def fuzz_extract(oracle: Oracle, first: int, count: int) -> Findings:
    """Compare what is extracted of random documents by random sets of their fields."""
    findings = Findings()
    for seed in range(first, first + count):
        random = Random(seed)
        models = Schemas(random).models()
        documents = Documents(random, models)
        document, other = documents.document(1), documents.document(1)
        types = Types(models)
        view = types.of_kind(version(1), KIND)
        assert view is not None
        edited = documents.edit(document, 1) if random.random() < 0.5 else other
        try:
            check(view, edited, duplicates=True)
        except UnfitError:
            continue  # such as an edit that left an item without its key, which no set can name
        fields = naming.owned(view, edited)
        if random.random() < 0.5:
            fields = fieldset.leaves(fields)
        [theirs] = oracle.ask(
            op="extract",
            schema=oracle.define(models),
            model=f"example.test.v1.{KIND}",
            live=document,
            left=fieldset.write(fields),
        )
        try:
            check(view, document, duplicates=False)
            mine: Answer = {"object": extract(view, document, fields)}
        except UnfitError as error:
            mine = {"error": {"text": str(error)}}
        findings.counts["extracted"] += 1
        if normal(mine) != normal(theirs):
            findings.wrong.append(f"seed {seed}\nours:   {normal(mine)}\ntheirs: {normal(theirs)}")
    return findings
