# SPDX-License-Identifier: Apache-2.0
"""Objects in expressions of mutating policies become maps, and nothing else changes."""

import pytest

from trainwright.controller.local.cel.expression import compiled_over, with_maps


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("Object{}", {}),
        ("Object { spec : Object.spec { replicas : 1 } }", {"spec": {"replicas": 1}}),
        ("Object{metadata: Object.metadata{labels: {'a': x, x: 'b'}}}", {"metadata": {"labels": {"a": "v", "v": "b"}}}),
        ("Object{a: [Object.a{n: x}, Object.a{n: 'Object{b: 1}'}]}", {"a": [{"n": "v"}, {"n": "Object{b: 1}"}]}),
        ("Object{a: true ? Object.a{b: 1} : Object.a{}, c: 2}", {"a": {"b": 1}, "c": 2}),
        ("Object{?a: optional.of(1), ?b: optional.none()}", {"a": 1}),
        ("Object{`a-b`: 1}", {"a-b": 1}),
        ("[JSONPatch{op: 'add', path: '/a/' + jsonpatch.escapeKey('b/~'), value: Object.a{b: {x: 1}}}]",
         [{"op": "add", "path": "/a/b~1~0", "value": {"b": {"v": 1}}}]),
        ("['a'].map(Object, Object + x)", ["av"]),
        ("{'Object': x}", {"Object": "v"}),
    ],
)  # fmt: skip
def test_objects(expression: str, value: object) -> None:
    assert compiled_over(with_maps(expression), ("x",)).run({"x": "v"}) == value
