# SPDX-License-Identifier: Apache-2.0
"""A CustomResourceDefinition with every shape of schema that a server checks, and documents of it, right and wrong."""

from random import Random
from typing import Any

Document = dict[str, Any]
GROUP = "schema.example.com"

TEXT: Document = {"type": "string"}
NUMBER: Document = {"type": "integer"}

FIELDS: dict[str, Document] = {
    "text": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-zé]+$"},
    "line": {"type": "string", "pattern": "a$"},
    "one": {"type": "string", "maxLength": 1},
    "choice": {"type": "string", "enum": ["a", "b", ""]},
    "level": {"type": "integer", "enum": [1, 2]},
    "maybe": {"type": "string", "nullable": True, "enum": ["x"]},
    "small": {"type": "integer", "format": "int32", "minimum": -1, "maximum": 10},
    "large": {"type": "integer", "format": "int64", "exclusiveMinimum": True, "minimum": 0},
    "even": {"type": "integer", "multipleOf": 2},
    "ratio": {"type": "number", "minimum": 0.5, "maximum": 10, "exclusiveMaximum": True},
    "single": {"type": "number", "format": "float"},
    "double": {"type": "number", "format": "double", "multipleOf": 2},
    "flag": {"type": "boolean"},
    "when": {"type": "string", "format": "date-time"},
    "day": {"type": "string", "format": "date"},
    "bytes": {"type": "string", "format": "byte"},
    "address": {"type": "string", "format": "ipv4"},
    "six": {"type": "string", "format": "ipv6"},
    "range": {"type": "string", "format": "cidr"},
    "host": {"type": "string", "format": "hostname"},
    "mail": {"type": "string", "format": "email"},
    "link": {"type": "string", "format": "uri"},
    "id": {"type": "string", "format": "uuid"},
    "mac": {"type": "string", "format": "mac"},
    "span": {"type": "string", "format": "duration"},
    "odd": {"type": "string", "format": "no-such-format"},
    "short": {"type": "string", "format": "k8s-short-name"},
    "either": {"x-kubernetes-int-or-string": True},
    "port": {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
        "pattern": "^[a-z]+$",
        "minimum": 1,
    },
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"known": NUMBER}},
    "anything": {"x-kubernetes-preserve-unknown-fields": True},
    "bare": {"type": "object"},
    "table": {"type": "object", "additionalProperties": NUMBER, "minProperties": 1, "maxProperties": 2},
    "open": {"type": "object", "additionalProperties": True},
    "closed": {"type": "object", "additionalProperties": False},
    "tables": {
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "required": ["a"],
            "properties": {"a": NUMBER, "b": {"type": "string", "default": "z"}},
        },
    },
    "names": {"type": "array", "items": TEXT, "minItems": 1, "maxItems": 2},
    "gaps": {"type": "array", "items": {"type": "string", "nullable": True}},
    "filled": {"type": "array", "items": {"type": "integer", "default": 7}},
    "tags": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
    "units": {
        "type": "array",
        "x-kubernetes-list-type": "set",
        "items": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": NUMBER, "b": TEXT}},
    },
    "items": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": TEXT, "value": {"type": "string", "maxLength": 2}, "inner": {"type": "object"}},
        },
    },
    "ports": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port", "protocol"],
        "items": {
            "type": "object",
            "required": ["port"],
            "properties": {"port": NUMBER, "protocol": {"type": "string", "default": "TCP"}, "note": TEXT},
        },
    },
    "defaults": {
        "type": "object",
        "properties": {
            "text": {"type": "string", "default": "d"},
            "number": {"type": "integer", "default": 0},
            "null": {"type": "string", "nullable": True, "default": "n"},
            "list": {"type": "array", "items": NUMBER, "default": [1]},
            "object": {"type": "object", "default": {}, "properties": {"x": {"type": "integer", "default": 1}}},
            "absent": {"type": "object", "properties": {"x": {"type": "integer", "default": 1}}},
        },
    },
    "any": {
        "type": "object",
        "properties": {"a": NUMBER, "b": TEXT},
        "anyOf": [
            {"required": ["a"], "properties": {"a": {"minimum": 3}}},
            {"required": ["b"], "properties": {"b": {"minLength": 2}}},
        ],
    },
    "exactly": {
        "type": "object",
        "properties": {"a": NUMBER, "b": TEXT},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
    "all": {
        "type": "string",
        "allOf": [{"minLength": 2}, {"maxLength": 3}, {"pattern": "^x"}],
    },
    "never": {"type": "object", "properties": {"a": NUMBER}, "not": {"required": ["a"]}},
    "template": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
    "strict": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "properties": {"spec": {"type": "object", "properties": {"a": NUMBER}}},
    },
    "deep": {
        "type": "object",
        "required": ["x", "y"],
        "properties": {"x": {"type": "object", "required": ["z"], "properties": {"z": NUMBER}}, "y": TEXT},
    },
}


def definition(plural: str, fields: dict[str, Document], **words: Any) -> Document:
    """A definition with these fields in `spec` and in `status`."""
    body = {"type": "object", "properties": fields}
    root = {
        "type": "object",
        "properties": {
            "apiVersion": TEXT,
            "kind": TEXT,
            "metadata": {"type": "object"},
            "spec": {**body, **words},
            "status": body,
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": root},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural[:-1], "kind": plural[:-1].title()},
            "versions": [version],
        },
    }


_META = {"name": "t", "labels": {"a": "b"}, "nonsense": 1, "creationTimestamp": None}
_ANY = {"apiVersion": "v1", "kind": "Pod"}
_SCALARS: list[Any] = ["a", "", 1, 1.5, 2.0, True, None, {}, [], {"a": 1}, ["a"], [None]]

VALUES: dict[str, list[Any]] = {
    "text": ["ab", "a", "abcde", "éé", "éééé", "ab\n", "AB", *_SCALARS],
    "line": ["a", "a\n", "ba", "b"],
    "one": ["ab", "\N{GRINNING FACE}"],
    "choice": ["a", "c", 97, "", *_SCALARS],
    "level": [1, 2, 3, 1.0, 1.5, "1", True],
    "maybe": ["x", None, "y", 1],
    "small": [-1, -2, 10, 11, 2**31, -(2**31) - 1, 1e3, 1.0, 1.5, *_SCALARS],
    "large": [1, 0, -1, 2**63 - 1, *_SCALARS],
    "even": [2, 3, 0, -4],
    "ratio": [0.5, 0.4, 10, 9.99, 10.0, 1e21, *_SCALARS],
    "single": [1.5, 3.5e38, 1, "a"],
    "double": [1.5, 1.25, 3, 1e300],
    "flag": [True, *_SCALARS],
    "when": [
        "2026-01-02T03:04:05Z",
        "2026-01-02T03:04:05.123+01:00",
        "2026-01-02t03:04:05z",
        "2026-01-02",
        "2026-13-02T03:04:05Z",
        "2026-01-02T24:04:05Z",
        "2026-01-02 03:04:05Z",
        *_SCALARS,
    ],
    "day": ["2026-02-28", "2026-02-29", "2024-02-29", "26-02-28", "0000-02-29", "x"],
    "bytes": ["", "YQ==", "YQ=", "YWJj", "YQ==\n", "_-__"],
    "address": ["1.2.3.4", "01.2.3.4", "1.2.3", "256.1.1.1", "::1", "::ffff:1.2.3.4", ""],
    "six": ["::1", "fe80::1%eth0", "1.2.3.4", "::ffff:1.2.3.4", "g::"],
    "range": ["10.0.0.0/8", "10.0.0.1/8", "::/0", "10.0.0.0/33", "10.0.0.0", "10.0.0.0/08"],
    "host": ["a", "a.b", "a.com", "-a", "a-", "a_b", "1a", "a..b", "é.com", "a" * 64, "a.b.c1"],
    "mail": ["a@b", "a", "A <a@b.c>", "@b", "a@", "a b@c"],
    "link": [
        "http://a",
        "/a",
        "a",
        "",
        "mailto:a",
        "http://a b",
        "http://[::1]:1/",
        "http://a:x",
        "//a",
        "%zz",
        "/%zz",
    ],
    "id": ["00000000-0000-0000-0000-000000000000", "00000000000000000000000000000000", "0", "G" * 32],
    "mac": ["01:23:45:67:89:ab", "01-23-45-67-89-ab", "0123.4567.89ab", "01:23:45:67:89", "01:23-45:67:89:ab"],
    "span": ["1s", "1.5h", "2 weeks", "1", "", "3 fortnights", "-1m"],
    "odd": ["anything"],
    "short": ["a-b", "A", "a.b", "a" * 64],
    "either": ["a", 1, 1.0, 1.5, True, {}, None],
    "port": ["http", "1", 1, 0, True, 1.5],
    "free": [{}, {"a": {"b": None}}, {"known": "x", "other": [1]}, {"known": None}, 1, []],
    "anything": [1, "a", [{"a": None}], {"b": {}}, None],
    "bare": [{}, {"a": {"b": 1}}, {"a": None}, 1],
    "table": [{"a": 1}, {}, {"a": "x", "b": 1, "c": 2}, {"a": None}, {"a": {"b": 1}}, []],
    "open": [{"a": 1, "b": {"c": 1}, "d": [{"e": 1}]}],
    "closed": [{}, {"a": 1, "b": {"c": 1}}],
    "tables": [{"k": {"a": 1}}, {"k": {}}, {"k": None}, {"k": {"a": None, "c": 1}}, {"k": {"a": 1, "b": None}}],
    "names": [["a"], [], ["a", "b", "c"], [1, None, "a"], ["a", {"b": 1}], {"a": 1}, "a"],
    "gaps": [["a", None], [1]],
    "filled": [[None, 1], ["x"]],
    "tags": [["a", "b"], ["a", "a"], ["a", "b", "a", "a", "b"], [1, 1], [None, None]],
    "units": [[{"a": 1}, {"a": 2}], [{"a": 1, "b": "x"}, {"b": "x", "a": 1}], [{}, {}], [{"a": 1}, {"a": 1.0}]],
    "items": [
        [{"name": "a"}, {"name": "b", "value": "xyz"}],
        [{"name": "a"}, {"name": "a"}, {"name": "a"}],
        [{}, {}],
        [{"name": None}],
        [{"name": 1}, {"name": 1}],
        [{"name": "a", "inner": {"x": 1}, "y": 2}],
        ["a"],
        [None],
    ],
    "ports": [
        [{"port": 1}, {"port": 1, "protocol": "UDP"}],
        [{"port": 1}, {"port": 1, "protocol": "TCP"}],
        [{"port": 1, "protocol": None}, {"port": 1}],
        [{}],
    ],
    "defaults": [
        {},
        {"text": None, "number": None, "null": None, "list": None, "object": None, "absent": None},
        {"object": {}, "absent": {}},
        {"list": [], "text": "", "object": {"x": None}},
    ],
    "any": [{"a": 3}, {"b": "xx"}, {}, {"a": 1}, {"b": "x"}, {"a": 1, "b": "x"}, {"a": "x"}, 1],
    "exactly": [{"a": 1}, {"a": 1, "b": "x"}, {}],
    "all": ["xx", "x", "y", "yyyy", 1],
    "never": [{}, {"a": 1}],
    "template": [
        _ANY,
        {},
        {**_ANY, "metadata": _META, "spec": {"x": None}},
        {**_ANY, "metadata": {"name": "a/b", "labels": {"a": "b c"}}},
        {**_ANY, "metadata": {"labels": {"a": 1}}},
        {"apiVersion": "", "kind": ""},
        {"apiVersion": "a/b/c", "kind": "My_Kind"},
        {"apiVersion": 1, "kind": "Pod"},
        {**_ANY, "metadata": None},
        {**_ANY, "metadata": {"namespace": "A", "generateName": "x-", "finalizers": ["x y"]}},
        1,
    ],
    "strict": [{**_ANY, "spec": {"a": 1, "b": 2}, "other": 1, "metadata": {"name": "x"}}],
    "deep": [{}, {"x": {}}, {"x": {"z": 1}, "y": "a"}, {"x": None, "y": 1}],
}
"""Values to try in each field."""


def wild(random: Random, depth: int = 0) -> Any:
    """Any JSON value."""
    if depth > 2 or random.random() < 0.6:
        return random.choice([*_SCALARS[:9], "ab", 3, -7, 2**40, "x" * 5])
    if random.random() < 0.5:
        return [wild(random, depth + 1) for _ in range(random.randint(0, 3))]
    names = random.sample(["a", "b", "name", "port", "protocol", "x", "apiVersion", "kind"], random.randint(0, 4))
    return {name: wild(random, depth + 1) for name in names}


def spec(random: Random, *, wildness: float = 0.15) -> Document:
    """Several fields with values of their lists or with anything."""
    names = random.sample(sorted(FIELDS), random.randint(1, 6))
    made = {name: wild(random) if random.random() < wildness else random.choice(VALUES[name]) for name in names}
    if random.random() < 0.2:
        made["unknown"] = wild(random)
    return made


def rules(*texts: str, message: str = "", **words: Any) -> list[Document]:
    """Rules, each with its text as message unless told otherwise."""
    return [{"rule": text, **({"message": message} if message else {}), **words} for text in texts]


_KEYED = {"type": "object", "required": ["name"], "properties": {"name": TEXT, "value": NUMBER}}
_MAX = "self <= 10"

RULED: dict[str, Document] = {
    "number": {**NUMBER, "x-kubernetes-validations": rules("self < 5", "self != 3", message="too much")},
    "plain": {**TEXT, "maxLength": 50, "x-kubernetes-validations": rules("self.startsWith('a')")},
    "forbidden": {
        **TEXT,
        "maxLength": 50,
        "x-kubernetes-validations": rules("self == 'x'", reason="FieldValueForbidden", message="no"),
    },
    "required": {
        "type": "object",
        "properties": {"a": NUMBER, "b-c": NUMBER, "namespace": TEXT},
        "x-kubernetes-validations": [
            {"rule": "has(self.a)", "reason": "FieldValueRequired", "fieldPath": ".a", "message": "a is needed"},
            {"rule": "!has(self.b__dash__c) || self.b__dash__c == 1", "fieldPath": "['b-c']"},
            {"rule": "!has(self.__namespace__) || self.__namespace__.size() < 3"},
        ],
    },
    "doubled": {
        **TEXT,
        "maxLength": 50,
        "x-kubernetes-validations": rules("self == 'd'", reason="FieldValueDuplicate"),
    },
    "spoken": {
        **NUMBER,
        "x-kubernetes-validations": [
            {"rule": "self < 5", "messageExpression": "self > 100 ? 'much too much' : 'too much'"},
            {"rule": "self != 7", "messageExpression": "1 / (self - 7) > 0 ? 'a' : 'b'", "message": "not seven"},
            {"rule": "self != 8", "messageExpression": "'two\\nlines'", "message": "not eight"},
        ],
    },
    "fixed": {**TEXT, "maxLength": 50, "x-kubernetes-validations": rules("self == oldSelf", message="fixed")},
    "once": {
        **TEXT,
        "maxLength": 50,
        "x-kubernetes-validations": rules(
            "oldSelf.hasValue() ? oldSelf.value() == self : self == 'first'", optionalOldSelf=True, message="once"
        ),
    },
    "listed": {
        "type": "array",
        "maxItems": 10,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {**_KEYED, "x-kubernetes-validations": rules("self.value >= oldSelf.value", message="only up")},
        "x-kubernetes-validations": rules("self.all(x, x.value < 100)", "self == oldSelf || size(self) < 4"),
    },
    "loose": {
        "type": "array",
        "maxItems": 10,
        "items": {**NUMBER, "x-kubernetes-validations": rules(_MAX)},
        "x-kubernetes-validations": rules("self.isSorted()", "self.sum() < 30", "self.max() < 20"),
    },
    "mapped": {
        "type": "object",
        "maxProperties": 10,
        "additionalProperties": {**NUMBER, "x-kubernetes-validations": rules(_MAX, "self >= oldSelf")},
        "x-kubernetes-validations": rules("self.all(k, k.size() < 3)", "'a' in self"),
    },
    "failing": {
        "type": "object",
        "properties": {"a": NUMBER, "b": NUMBER, "list": {"type": "array", "maxItems": 5, "items": NUMBER}},
        "x-kubernetes-validations": rules("self.a / self.b > 0", "self.list[2] > 0", message="it must work"),
    },
    "mixed": {
        "x-kubernetes-int-or-string": True,
        "x-kubernetes-validations": rules("self < 5", "type(self) == int || self == 'x'"),
    },
    "when": {**TEXT, "format": "date-time", "x-kubernetes-validations": rules("self.getFullYear() > 2000")},
    "times": {
        "type": "object",
        "properties": {
            "from": {**TEXT, "format": "date-time"},
            "to": {**TEXT, "format": "date-time"},
            "for": {**TEXT, "format": "duration"},
            "days": {"type": "array", "maxItems": 5, "items": {**TEXT, "format": "date"}},
        },
        "x-kubernetes-validations": rules(
            "!has(self.from) || !has(self.to) || self.from < self.to",
            "!has(self.__for__) || self.__for__ < duration('1h')",
            "!has(self.days) || self.days.all(d, d.getDayOfWeek() != 0)",
        ),
    },
    "ratio": {"type": "number", "x-kubernetes-validations": rules("self / 2.0 < 1.0")},
    "raw": {**TEXT, "format": "byte", "maxLength": 50, "x-kubernetes-validations": rules("size(self) < 3")},
    "amount": {
        **TEXT,
        "maxLength": 50,
        "x-kubernetes-validations": rules("isQuantity(self)", "quantity(self).isLessThan(quantity('1Gi'))"),
    },
    "net": {
        **TEXT,
        "maxLength": 50,
        "x-kubernetes-validations": rules(
            "isCIDR(self)", "cidr(self).containsIP('10.0.0.1')", "cidr(self).ip().family() == 4"
        ),
    },
    "site": {
        **TEXT,
        "maxLength": 50,
        "x-kubernetes-validations": rules(
            "isURL(self) && url(self).getScheme() == 'https'", "url(self).getPort() == ''"
        ),
    },
    "dns": {
        **TEXT,
        "maxLength": 80,
        "x-kubernetes-validations": [
            {
                "rule": "!format.dns1123Label().validate(self).hasValue()",
                "messageExpression": "'not a label: ' + self",
            },
            {"rule": "self.find('[0-9]+') == ''"},
        ],
    },
    "nullable": {**TEXT, "nullable": True, "maxLength": 5, "x-kubernetes-validations": rules("self == 'x'")},
    "holder": {
        "type": "object",
        "properties": {"maybe": {**TEXT, "nullable": True, "maxLength": 5}, "other": TEXT},
        "x-kubernetes-validations": rules("!has(self.maybe) || self.maybe == 'x'"),
    },
}
"""Fields with rules."""

RULED_VALUES: dict[str, list[Any]] = {
    "number": [1, 3, 5, 6, "a"],
    "plain": ["a", "b", ""],
    "forbidden": ["x", "y"],
    "required": [{}, {"a": 1}, {"a": 1, "b-c": 2}, {"a": 1, "namespace": "abc"}],
    "doubled": ["d", "e"],
    "spoken": [1, 6, 7, 8],
    "fixed": ["a", "b"],
    "once": ["first", "second"],
    "listed": [
        [{"name": "a", "value": 1}, {"name": "b", "value": 2}],
        [{"name": "b", "value": 1}, {"name": "a", "value": 2}],
        [{"name": "a", "value": 100}],
        [{"name": "a"}],
        [{"name": name, "value": 1} for name in "abcd"],
        [{"name": name, "value": 1} for name in "dcba"],
    ],
    "loose": [[1, 2], [2, 1], [11, 12, 13], [25], []],
    "mapped": [{"a": 1}, {"a": 0}, {"b": 1}, {"a": 1, "long": 11}],
    "failing": [
        {"a": 1, "b": 1, "list": [1, 2, 3]},
        {"a": 1, "b": 0, "list": []},
        {},
        {"a": -1, "b": 1, "list": [1, 2, -3]},
    ],
    "mixed": [1, 7, "x", "y"],
    "when": ["2026-01-01T00:00:00Z", "1999-01-01T00:00:00Z"],
    "times": [
        {},
        {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:00:00+01:00"},
        {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:00:01Z", "for": "2h"},
        {"for": "5m", "days": ["2026-11-22", "2026-11-23"]},
        {"for": "1 hour"},
    ],
    "ratio": [1, 1.5, 2, 3.5],
    "raw": ["YQ==", "YWJj"],
    "amount": ["1Mi", "2Gi", "x"],
    "net": ["10.0.0.0/8", "11.0.0.0/8", "x", "::/0"],
    "site": ["https://a", "http://a", "https://a:1", "x"],
    "dns": ["a", "A", "a1"],
    "nullable": [None, "x", "y"],
    "holder": [{}, {"maybe": None}, {"maybe": "x"}, {"maybe": "y"}],
}
"""Values to try in them."""


def ruled_definition(plural: str) -> Document:
    """A definition whose fields have rules, as the object itself has."""
    crd = definition(plural, RULED)
    root = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    root["x-kubernetes-validations"] = rules(
        "!self.metadata.name.startsWith('bad')", "!has(self.spec.number) || self.spec.number != 4"
    )
    return crd


def ruled_spec(random: Random) -> Document:
    """Several fields with values of their lists."""
    names = random.sample(sorted(RULED), random.randint(1, 6))
    return {name: random.choice(RULED_VALUES[name]) for name in names}
