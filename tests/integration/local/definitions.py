# SPDX-License-Identifier: Apache-2.0
"""Definitions that an API server refuses or takes, each one change of a good one."""

import copy
from collections.abc import Callable
from typing import Any

Document = dict[str, Any]
GROUP = "schema.example.com"

TEXT: Document = {"type": "string"}
_ITEM: Document = {"type": "object", "properties": {"name": TEXT, "n": {"type": "integer"}}}
_MAP = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}


def good(plural: str = "things") -> Document:
    """A definition without mistakes, of one version."""
    kind = plural[:-1].title()
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": TEXT}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [version],
        },
    }


Change = Callable[[Document], object]


def field(schema: Document, **version: Any) -> Change:
    """The definition has a field of this schema."""

    def change(crd: Document) -> None:
        one = crd["spec"]["versions"][0]
        one["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["f"] = schema
        one |= version

    return change


def root(**words: Any) -> Change:
    """The schema says this at its root."""
    return lambda crd: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].update(words)


def spec(**words: Any) -> Change:
    """The spec says this; None takes a word out."""

    def change(crd: Document) -> None:
        for word, value in words.items():
            if value is None:
                crd["spec"].pop(word, None)
            else:
                crd["spec"][word] = value

    return change


def names(**words: Any) -> Change:
    """The names say this."""
    return lambda crd: crd["spec"]["names"].update(words)


def version(**words: Any) -> Change:
    """The version says this."""
    return lambda crd: crd["spec"]["versions"][0].update(words)


def second(name: str = "v2", *, storage: bool = False, alike: bool = True) -> Change:
    """There is another version."""

    def change(crd: Document) -> None:
        made = copy.deepcopy(crd["spec"]["versions"][0]) | {"name": name, "storage": storage}
        if not alike:
            made["schema"]["openAPIV3Schema"]["properties"]["more"] = {"type": "array"}
        crd["spec"]["versions"].append(made)

    return change


def column(**words: Any) -> Change:
    """There is a printer column."""
    return version(additionalPrinterColumns=[words])


def rule(text: str, **words: Any) -> Change:
    """A field with a rule."""
    return field({**TEXT, "maxLength": 10, "x-kubernetes-validations": [{"rule": text, **words}]})


_NAMED: Document = {"type": "object", "properties": {"name": {**TEXT, "maxLength": 5}}}
_TYPED: Document = {
    "type": "object",
    "properties": {
        "text": {**TEXT, "maxLength": 5},
        "number": {"type": "integer"},
        "ratio": {"type": "number"},
        "when": {**TEXT, "format": "date-time"},
        "either": {"x-kubernetes-int-or-string": True},
        "free": {"x-kubernetes-preserve-unknown-fields": True},
        "bag": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "items": {"type": "array", "maxItems": 3, "items": _NAMED},
        "map": {"type": "object", "maxProperties": 3, "additionalProperties": _NAMED},
        "namespace": {**TEXT, "maxLength": 5},
        "a-b": {"type": "integer"},
        "data": {**TEXT, "format": "byte"},
        "span": {**TEXT, "format": "duration"},
        "table": {"type": "array", "maxItems": 3, "items": {"type": "array", "maxItems": 3, "items": TEXT}},
        "lists": {
            "type": "object",
            "maxProperties": 3,
            "additionalProperties": {"type": "array", "maxItems": 3, "items": {"type": "integer"}},
        },
        "countOf": {"type": "object", "maxProperties": 3, "additionalProperties": {"type": "integer"}},
        "count_of": {"type": "object", "maxProperties": 3, "additionalProperties": {"type": "integer"}},
        "whole": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
    },
}


def typed(text: str, **words: Any) -> Change:
    """A field of many types with a rule."""
    return field({**_TYPED, "x-kubernetes-validations": [{"rule": text, **words}]})


_TEXTS = (
    "self.text.first == 'a'",
    "self.number.first == 1",
    "self.when.first == 1",
    "self.items.name == 'a'",
    "has(self.text.first)",
    "self.?text.?first.hasValue()",
    "self['text'] == 'a'",
    "self.text",
    "self.number",
    "self.either",
    "self.free",
    "self.bag",
    "self.items[0]",
    "type(self.number) == int",
    "self.text.startsWith(1)",
    "self.text.matches('[')",
    "self.text.matches(self.number)",
    "self.number.startsWith('a')",
    "size(self.number) == 1",
    "self.text + 1 == 'a1'",
    "self.number + self.ratio > 1.0",
    "self.number / 2 == 1",
    "self.number % 2.0 == 1.0",
    "-self.text == 'a'",
    "!self.number",
    "self.number && true",
    "self.text ? true : false",
    "has(self.text) ? self.text == 'a' : self.number",
    "(has(self.text) ? self.text : self.number) == 'a'",
    "self.number in ['a']",
    "self.text in self.items",
    "'a' in self.map",
    "1 in self.map",
    "self.map[1].name == 'a'",
    "self.items['a'].name == 'a'",
    "self.items.all(x, x.name)",
    "self.items.all(x, x == 'a')",
    "self.items.exists(x, x.name > 1)",
    "self.items.map(x, x.name) == [1]",
    "self.items.map(x, x.name).join(',') == 1",
    "self.items.filter(x, x.name == 'a').size() == 'a'",
    "self.map.all(k, k > 1)",
    "self.map.all(k, v, v.name == k)",
    "self.map.all(k, v, v == k)",
    "self.?text.orValue(1) == 1",
    "self.?text.orValue('a') == 'a'",
    "self.?text.optMap(x, x.size()).orValue(1) > 'a'",
    "self.?text.hasValue() && self.?items[0].?name.orValue('') == ''",
    "self.?text == 'a'",
    "self.items[?0].name == 'a'",
    "self.items[?0].?nope.hasValue()",
    "[1, 'a'].size() == 2",
    "'%s has %d'.format([self.text, self.number]) == ''",
    "self.text == 'a' // a note",
    "timestamp(0) < self.when",
    "[self.text, self.number].size() == 2",
    "{'a': 1, 'b': 'c'}.size() == 2",
    "self.text in ['a', 1]",
    "quantity(self.number).isGreaterThan(quantity('1'))",
    "quantity(self.text).isGreaterThan('1')",
    "quantity(self.text).isInteger()",
    "isQuantity(self.number)",
    "ip(self.number).family() == 4",
    "url(self.text).getHost() == 1",
    "self.data == b'a'",
    "self.data == 'a'",
    "self.data.size() == 1",
    "self.span > duration('1h')",
    "self.span > '1h'",
    "self.when > timestamp('2026-01-01T00:00:00Z')",
    "self.when > timestamp('tomorrow')",
    "self.span > duration('soon')",
    "self.when - self.when > duration('1h')",
    "self.when + self.when > self.when",
    "self.when.getFullYear() > 'a'",
    "self.table.all(row, row.all(cell, cell == 'a'))",
    "self.table[0][0] == 'a'",
    "self.lists.all(k, self.lists[k].all(n, n > 1))",
    "self.countOf.all(k, self.countOf[k] > 1) && self.count_of.all(k, self.count_of[k] > 1)",
    "self.countOf['a'] == 'b'",
    "self.whole.metadata.name == 'a' && self.whole.kind == 'b'",
    "self.whole.metadata.name == 1",
    "self.whole.spec.a == 1",
    "self.metadata.name == 'a'",
    "self.either == self.text",
    "self.either > 1",
    "self.either.first == 1",
    "self == null",
    "self.items == null",
    "self.map[0] == null",
    "self.items[0] == null",
    "self.when == null",
    "self.number == 1u",
    "self.number == 1.0",
    "self.number < 1u",
    "int(self.text) == 1 && string(self.number) == '1' && double(self.number) > 1",
    "int(self.items) == 1",
    "dyn(self.text) == 1",
    "self.text.split(',')[0] == 1",
    "self.text.find('[0-9]+') == 1",
    "self.text.lowerAscii().upperAscii() == 'A'",
    "self.text.substring('a') == 'a'",
    "sets.contains(self.items, [1])",
    "sets.contains(['a'], [self.text])",
    "oldSelf.text == self.number",
    "cel.bind(x, self.text, x == 1)",
    "newValue == 1",
    "hasOld",
    "authorizer.path('/a').check('get').allowed()",
    "variables.a",
    "self.items.all(self, self.name == 'a')",
    "self.items.all(1, true)",
    "self.text == 'a' || self.nope == 1",
    "semver('1.0.0').major() == 1",
    "format.named('dns1123Label').value().validate(self.text).hasValue()",
    "self.items.distinct().size() == 1",
    "self.items.sort().size() == 1",
    "lists.range(3).all(n, n == self.number)",
    "self.items.transformList(i, v, v.name) == [1]",
    "self.items.transformList(i, v, i)[0] == self.number",
    "self.map.transformMap(k, v, v.name)['a'] == 1",
    "self.items.slice(0, 1).all(x, x.name == 1)",
    "base64.encode(self.data) == 'a'",
    "self.text.charAt(0) == 1",
    "'%s'.format([self.text]) == 1",
    "self.`a-b` == 1",
    "self.namespace == 1",
)
"""Rules over fields of many types."""


def _items(item: Document, **words: Any) -> Change:
    return field({"type": "array", "maxItems": 5, "items": item, **words})


_OLD_RULE = [{"rule": "self == oldSelf"}]

CHANGES: dict[str, Change] = {
    "nothing": names(),
    "metadata name": lambda crd: crd["metadata"].update(name="other.example.com"),
    "name with capital": lambda crd: crd["metadata"].update(name="Things.schema.example.com"),
    "no group": spec(group=""),
    "group without dot": spec(group="example"),
    "group wrong": spec(group="Example.com"),
    "no scope": spec(scope=""),
    "other scope": spec(scope="World"),
    "no versions": spec(versions=[]),
    "no schema": lambda crd: crd["spec"]["versions"][0].pop("schema"),
    "no storage": version(storage=False),
    "version name": version(name="V1"),
    "two storages": second(storage=True),
    "same version": second("v1"),
    "second alike": second(),
    "second differs": second(alike=False),
    "deprecated": version(deprecated=True, deprecationWarning="old"),
    "deprecation without": version(deprecationWarning="old"),
    "deprecation empty": version(deprecated=True, deprecationWarning=""),
    "deprecation line": version(deprecated=True, deprecationWarning="a\nb"),
    "no kind": names(kind=""),
    "no plural": names(plural=""),
    "kind lower": names(kind="thing"),
    "kind wrong": names(kind="my_kind"),
    "kind is list kind": names(listKind="Thing"),
    "short names": names(shortNames=["a", "B", "c_d"]),
    "categories": names(categories=["all", "No No"]),
    "singular wrong": names(singular="Thing"),
    "conversion": spec(conversion={"strategy": "Nothing"}),
    "preserve": spec(preserveUnknownFields=True),
    "protected": lambda crd: (crd["spec"].update(group="x.k8s.io"), crd["metadata"].update(name="things.x.k8s.io")),
    "protected, approved": lambda crd: (
        crd["spec"].update(group="x.k8s.io"),
        crd["metadata"].update(
            name="things.x.k8s.io", annotations={"api-approved.kubernetes.io": "unapproved, experimental"}
        ),
    ),
    "protected, approved badly": lambda crd: (
        crd["spec"].update(group="x.k8s.io"),
        crd["metadata"].update(name="things.x.k8s.io", annotations={"api-approved.kubernetes.io": "yes"}),
    ),
    "column": column(name="A", type="string", jsonPath=".spec.x"),
    "column type": column(name="A", type="text", jsonPath=".spec.x"),
    "column empty": column(name="", type="", jsonPath=""),
    "column format": column(name="A", type="string", format="long", jsonPath="spec.x"),
    "scale": version(subresources={"scale": {"specReplicasPath": ".status.a", "statusReplicasPath": "a"}}),
    "scale selector": version(
        subresources={
            "scale": {"specReplicasPath": ".spec.a", "statusReplicasPath": ".status.a", "labelSelectorPath": ".a"}
        }
    ),
    "selectable": version(selectableFields=[{"jsonPath": ".spec.x"}]),
    "selectable twice": version(selectableFields=[{"jsonPath": ".spec.x"}, {"jsonPath": ".spec.x"}]),
    "selectable unknown": version(selectableFields=[{"jsonPath": ".spec.y"}, {"jsonPath": ""}, {"jsonPath": "x"}]),
    "selectable object": version(selectableFields=[{"jsonPath": ".spec"}, {"jsonPath": ".spec['x']"}]),
    "status root": lambda crd: (version(subresources={"status": {}})(crd), root(minProperties=1)(crd)),
    "status type": lambda crd: (version(subresources={"status": {}})(crd), root(type="string")(crd)),
    "root nullable": root(nullable=True),
    "root type": root(type="array"),
    "root without type": root(type=""),
    "root others": root(additionalProperties=TEXT),
    "root metadata": lambda crd: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].update(
        metadata={"type": "object", "properties": {"labels": {"type": "object"}}}
    ),
    "root metadata name": lambda crd: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].update(
        metadata={"type": "object", "properties": {"name": {**TEXT, "maxLength": 5}}}
    ),
    "root kind": lambda crd: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].update(
        kind={"type": "integer"}
    ),
    "no type": field({"description": "x"}),
    "other type": field({"type": "text"}),
    "null type": field({"type": "null"}),
    "array without items": field({"type": "array"}),
    "items list": _items([TEXT]),  # type: ignore[arg-type]
    "items without type": _items({}),
    "unique": _items(TEXT, uniqueItems=True),
    "nested type": field({**TEXT, "anyOf": [{"type": "string"}]}),
    "nested words": field({**TEXT, "allOf": [{"description": "a", "nullable": True, "default": "x", "title": "t"}]}),
    "nested undeclared": field({"type": "object", "anyOf": [{"properties": {"a": {"minLength": 1}}}]}),
    "root undeclared": root(anyOf=[{"properties": {"a": {"minLength": 1}}}]),
    "nested metadata": field({"type": "object", "not": {"properties": {"metadata": {}}}}),
    "both kinds of fields": field({"type": "object", "properties": {"a": TEXT}, "additionalProperties": TEXT}),
    "int or string": field({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
    "int or string, reversed": field(
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "string"}, {"type": "integer"}]}
    ),
    "int or string, preserve": field(
        {"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True}
    ),
    "preserve false": field({"type": "object", "x-kubernetes-preserve-unknown-fields": False}),
    "embedded": field({"type": "object", "x-kubernetes-embedded-resource": True}),
    "embedded text": field({"type": "string", "x-kubernetes-embedded-resource": True}),
    "pattern": field({**TEXT, "pattern": "["}),
    "pattern group": field({**TEXT, "pattern": "(a"}),
    "pattern ahead": field({**TEXT, "pattern": "(?=a)"}),
    "map type": field({**TEXT, "x-kubernetes-map-type": "atomic"}),
    "map type unknown": field({"type": "object", "x-kubernetes-map-type": "weird"}),
    "list type": field({**TEXT, "x-kubernetes-list-type": "set"}),
    "list type unknown": _items(TEXT, **{"x-kubernetes-list-type": "bag"}),
    "set of objects": _items(_ITEM, **{"x-kubernetes-list-type": "set"}),
    "set of nullables": _items({**TEXT, "nullable": True}, **{"x-kubernetes-list-type": "set"}),
    "keys without map": _items(_ITEM, **{"x-kubernetes-list-map-keys": ["name"]}),
    "map without keys": _items(_ITEM, **{"x-kubernetes-list-type": "map"}),
    "map of texts": _items(TEXT, **_MAP),
    "key not required": _items(_ITEM, **_MAP),
    "key required": _items({**_ITEM, "required": ["name"]}, **_MAP),
    "key unknown": _items(_ITEM, **{**_MAP, "x-kubernetes-list-map-keys": ["x"]}),
    "key twice": _items({**_ITEM, "required": ["name"]}, **{**_MAP, "x-kubernetes-list-map-keys": ["name", "name"]}),
    "key nullable": _items(
        {"type": "object", "required": ["name"], "properties": {"name": {**TEXT, "nullable": True}}}, **_MAP
    ),
    "key object": _items({"type": "object", "required": ["name"], "properties": {"name": {"type": "object"}}}, **_MAP),
    "default": field({**TEXT, "default": "a"}),
    "default wrong type": field({**TEXT, "default": 1}),
    "default too long": field({**TEXT, "maxLength": 1, "default": "ab"}),
    "default unknown field": field({"type": "object", "properties": {"a": TEXT}, "default": {"b": 1}}),
    "default missing field": field({"type": "object", "required": ["a"], "properties": {"a": TEXT}, "default": {}}),
    "default breaks rule": field(
        {**TEXT, "maxLength": 5, "default": "b", "x-kubernetes-validations": [{"rule": "self == 'a'"}]}
    ),
    "default in kind": lambda crd: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].update(
        kind={**TEXT, "default": "Thing"}
    ),
    "rule": rule("self == 'a'"),
    "rule empty": rule(" "),
    "rule syntax": rule("self =="),
    "rule not bool": rule("size(self)"),
    "rule function": rule("foo(self)"),
    "rule overload": rule("1 + 'a' == 'b'"),
    "rule two errors": rule("foo(self) || bar()"),
    "rule lines": rule("self ==\n'a'"),
    "rule message lines": rule("self == 'a'", message="a\nb"),
    "rule message empty": rule("self == 'a'", message=" "),
    "rule expression": rule("self == 'a'", messageExpression="'x'"),
    "rule expression wrong": rule("self == 'a'", messageExpression="1"),
    "rule expression syntax": rule("self == 'a'", messageExpression="foo("),
    "rule reason": rule("self == 'a'", reason="FieldValueWrong"),
    "rule undefined field": typed("self.nope == 'a'"),
    "rule undefined in has": typed("has(self.nope) && has(self.text)"),
    "rule undefined deep": typed("self.items.all(x, x.name == 'a' && x.nope == 1)"),
    "rule undefined in map": typed("self.map['k'].nope == 'a'"),
    "rule undefined optional": typed("self.?nope.hasValue()"),
    "rule two undefined": typed("self.nope ||\n self.other", message="m"),
    "rule free field": typed("has(self.free)"),
    "rule inside free": typed("has(self.bag.x)"),
    "rule of types": typed("self.text == 1"),
    "rule of order": typed("self.text < self.number"),
    "rule of numbers": typed("self.number < self.ratio"),
    "rule of equal numbers": typed("self.number == self.ratio"),
    "rule of null": typed("self.text == null"),
    "rule of sizes": typed("size(self.text) == '1'"),
    "rule of times": typed("self.when == '2026-01-01T00:00:00Z'"),
    "rule of either": typed("self.either == 1 || self.either == 'a'"),
    "rule good": typed(
        "self.items.all(x, x.name.size() < 3) && self.map.all(k, self.map[k].name == k) && self.number > 0.5 && "
        "self.__namespace__ == self.namespace && self.a__dash__b == 1 && (has(self.text) ? self.text : 'a') == 'b'"
    ),
    "rule good over lists": typed(
        "self.items.filter(x, x.name == 'a').map(y, y.name).exists(z, z == 'a') && self.items[0].name == 'a' && "
        "self.items.exists_one(x, x.name == self.text) && self.items.size() == self.number"
    ),
    "rule of messages": typed("self.number > 1", messageExpression="self.nope"),
    "rule old field": typed("self.number == oldSelf.nope"),
    "rule of the root": root(**{"x-kubernetes-validations": [{"rule": "self.metadata.name == 'a' && has(self.spec)"}]}),
    "rule of root labels": root(**{"x-kubernetes-validations": [{"rule": "has(self.metadata.labels)"}]}),
    "rule optional": rule("self == 'a'", optionalOldSelf=True),
    "rule path": rule("self == 'a'", fieldPath=".x"),
    "rule old in list": _items({**TEXT, "maxLength": 5, "x-kubernetes-validations": _OLD_RULE}),
    "rule old in map list": _items(
        {**_ITEM, "required": ["name"], "x-kubernetes-validations": [{"rule": "has(self.n) == has(oldSelf.n)"}]}, **_MAP
    ),
    "format unknown": field({**TEXT, "format": "weird"}),
    "expression of any type": typed("self.number > 1", messageExpression="self.either"),
    "expression of old": typed("self.number > 1", messageExpression="oldSelf.text"),
    "expression of types": typed("self.number > 1", messageExpression="self.text + self.number"),
    "optional old": rule("oldSelf.orValue('a') == self", optionalOldSelf=True),
    "optional old of types": rule("oldSelf.orValue(1) == 1", optionalOldSelf=True),
    "optional old with a note": rule("oldSelf.orValue('a') == self // a note", optionalOldSelf=True),
    "expression with a list of types": typed(
        "self.number > 1", messageExpression="'%s has %d'.format([self.text, self.number])"
    ),
    "embedded that types its metadata": field(
        {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "properties": {
                "apiVersion": TEXT,
                "kind": TEXT,
                "metadata": {
                    "type": "object",
                    "properties": dict.fromkeys(("name", "generateName", "namespace"), TEXT),
                },
            },
            "x-kubernetes-validations": [{"rule": "self.metadata.namespace != 'a'"}],
        }
    ),
    "optional old as value": rule("oldSelf == self", optionalOldSelf=True),
    "rule of a number": field({"type": "integer", "x-kubernetes-validations": [{"rule": "self == '0'"}]}),
    "rule into a number": field({"type": "integer", "x-kubernetes-validations": [{"rule": "self.foo > 1"}]}),
    "rule of a list": _items(TEXT, **{"x-kubernetes-validations": [{"rule": "self[0] == 1"}]}),
    "rule of a list of lists": _items(
        {"type": "array", "items": TEXT}, **{"x-kubernetes-validations": [{"rule": "self[0][0] == 1"}]}
    ),
    "rule of either alone": field({"x-kubernetes-int-or-string": True, "x-kubernetes-validations": [{"rule": "self"}]}),
    "default breaks inner rule": field(
        {
            "type": "object",
            "default": {"a": "b"},
            "properties": {"a": {**TEXT, "maxLength": 5, "x-kubernetes-validations": [{"rule": "self == 'a'"}]}},
        }
    ),
    "default lacks a field with a default": field(
        {"type": "object", "required": ["a"], "properties": {"a": {**TEXT, "default": "b"}}, "default": {}}
    ),
    "default breaks items": field({"type": "array", "maxItems": 1, "items": TEXT, "default": ["a", "b"]}),
    "default breaks minItems": field({"type": "array", "minItems": 1, "items": TEXT, "default": []}),
    "default breaks minProperties": field({"type": "object", "minProperties": 1, "default": {}}),
    "default twice in a set": field(
        {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set", "default": ["a", "a"]}
    ),
    "default of a format": field({**TEXT, "format": "date-time", "default": "tomorrow"}),
    "default beyond int32": field({"type": "integer", "format": "int32", "default": 3000000000}),
    "default null": field({**TEXT, "default": None}),
    "default no multiple": field({"type": "integer", "multipleOf": 2, "default": 3}),
    "column unclosed": column(name="A", type="string", jsonPath=".spec[0"),
    "column filter": column(name="A", type="string", jsonPath=".status.conditions[?(@.type=='A')].status"),
    "column filter wrong": column(name="A", type="string", jsonPath=".status.conditions[?(@.type='A')].status"),
    "column nowhere": column(name="A", type="string", jsonPath=".spec.nope"),
    "column twice": version(
        additionalPrinterColumns=[{"name": "A", "type": "string", "jsonPath": path} for path in (".a", ".b")]
    ),
    "column brace": column(name="A", type="string", jsonPath="{.spec.a}"),
    **{text: typed(text) for text in _TEXTS},
}
"""What makes the good definition another one."""
