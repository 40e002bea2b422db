# SPDX-License-Identifier: Apache-2.0
"""Types that our own API hardly has are compiled as well: a package is made of them, loaded and used."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from trainwright.codegen.compiler import Compiled, compile_all

SCHEMA = Path(__file__).with_name("odd.yaml")
HOOK = "def default_Inner(inner):\n    if inner.count > 99:\n        inner.unit = 'many'\n"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    root: Path = tmp_path_factory.mktemp("odd")
    real = Path(__file__).resolve().parents[3] / "api"
    (root / "api/odd/v1").mkdir(parents=True)
    (root / "api/kubernetes").mkdir()
    (root / "api/odd/v1/odd.yaml").write_bytes(SCHEMA.read_bytes())
    (root / "api/authored.schema.json").write_bytes((real / "authored.schema.json").read_bytes())
    kubernetes = "apiVersion: trainwright/v1\nkind: KubernetesTypes\nkubernetesVersion: '1.36'\nkinds: []\n"
    (root / "api/kubernetes/kinds.yaml").write_text(kubernetes, encoding="utf-8")
    (root / "api/odd/v1/defaulting.py").write_text(HOOK, encoding="utf-8")
    return compile_all(root)


@pytest.fixture(scope="module")
def odd(compiled: Compiled) -> Iterator[Any]:
    """The generated module. Its imports of Kubernetes' types lead to those of this project."""
    hooks = ModuleType("trainwright.api.odd.v1.defaulting")
    exec(HOOK, hooks.__dict__)
    module = ModuleType("trainwright.api.odd.v1.models")
    made = [ModuleType("trainwright.api.odd"), ModuleType("trainwright.api.odd.v1"), hooks, module]
    sys.modules.update({package.__name__: package for package in made})
    exec(compile(compiled.files["api/odd/v1/models.py"], "models.py", "exec"), module.__dict__)
    yield module
    for package in made:
        del sys.modules[package.__name__]


DEFAULTS = {
    "from": 'it\'s "so"',
    "class": "b c",
    "share": 0.5,
    "active": True,
    "words": ["one", "two"],
    "part": {"name": "unnamed"},
    "filled": {"name": "given", "inner": {"count": 7, "unit": "each"}},
    "parts": [{"name": "a"}],
    "amount": "1Gi",
    "port": "http",
    "anything": {"a": [1]},
    "plainMap": {"k": "v"},
}


def test_defaults(odd: Any) -> None:
    made = msgspec.json.decode(b'{"spec":{}}', type=odd.Odd)
    made.set_defaults()
    assert json.loads(msgspec.json.encode(made)) == {"level": 3, "spec": DEFAULTS}


def test_defaults_are_not_shared(odd: Any) -> None:
    one, other = odd.OddSpec(), odd.OddSpec()
    one.set_defaults()
    other.set_defaults()
    for name in ("words", "part", "filled", "parts", "anything", "plain_map"):
        assert getattr(one, name) == getattr(other, name)
        assert getattr(one, name) is not getattr(other, name)


NESTED: dict[str, Any] = {
    "byName": {"x": {"inner": {"count": 1}}},
    "grid": [[{"inner": {"count": 2}}], []],
    "lists": {"y": [{}, {"inner": {"count": 100}}]},
    "numbers": {"z": [1, 2]},
    "nothing": {},
    "hostIP": "h",
    "x-Y.z": "odd",
    "when": "2026-11-20T08:30:00.000000Z",
}


def test_defaults_deep_inside(odd: Any) -> None:
    made = msgspec.convert({"level": 1, "spec": NESTED}, odd.Odd)
    made.set_defaults()
    spec = made.spec
    assert spec.by_name["x"].name == "unnamed"
    assert spec.by_name["x"].inner.unit == "each"
    assert spec.grid[0][0].inner.unit == "each"
    assert [part.name for part in spec.lists["y"]] == ["unnamed", "unnamed"]
    assert spec.lists["y"][1].inner.unit == "many", "the hand-written default did not run"
    assert made.level == 1


def test_copies_deep_inside(odd: Any) -> None:
    made = msgspec.convert({"level": 1, "spec": NESTED}, odd.Odd)
    before = msgspec.json.encode(made)
    copied = made.deepcopy()
    assert copied == made
    copied.spec.by_name["x"].inner.count = 0
    copied.spec.grid[0].append(odd.Part())
    copied.spec.lists["y"][0].name = "changed"
    copied.spec.numbers["z"].append(3)
    assert msgspec.json.encode(made) == before


def test_names_and_types(odd: Any) -> None:
    assert json.loads(msgspec.json.encode(msgspec.convert(NESTED, odd.OddSpec))) == NESTED
    names = {field.encode_name: field.name for field in msgspec.structs.fields(odd.OddSpec)}
    assert (names["from"], names["class"], names["hostIP"], names["x-Y.z"]) == ("from_", "class_", "host_ip", "x_y_z")
    with pytest.raises(msgspec.ValidationError, match="Invalid enum value 'c'"):
        msgspec.convert({"class": "c"}, odd.OddSpec)
    assert odd.Odd.__doc__ == 'Says "quoted" things, even """three""" of them, a \\ and ends with a "quote" '
    assert odd.Odd.RESOURCE.path(name="a") == "/apis/example.com/v1/odds/a"


def test_definition_and_schema(compiled: Compiled) -> None:
    definition = compiled.files["config/crd/example.com_odds.yaml"]
    assert "$ref" not in definition
    schema = json.loads(compiled.files["api/odd/v1/odd.schema.json"])
    assert schema["properties"]["spec"] == {"$ref": "#/$defs/example.com.v1.OddSpec"}
    assert schema["$defs"]["example.com.v1.Inner"]["properties"]["count"]["maximum"] == 2**31 - 1
    assert schema["$defs"]["example.com.v1.Nothing"]["additionalProperties"] is False
