# SPDX-License-Identifier: Apache-2.0
"""Documents that the API server stores and that are nested too deeply for the decoder."""

import json
from typing import Any

import msgspec
import pytest

from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime.errors import DecodeError
from trainwright.controller.runtime.kinds import codec_of
from trainwright.controller.runtime.nesting import cut_off


def nested(depth: int, value: str = "") -> str:
    return "[" * depth + value + "]" * depth


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ('{"a":[[1,2],[{"b":3}]],"c":4}', {"a": [None, None], "c": 4}),
        ('{"a":"[[[[", "b\\"]":["\\\\",[1]]}', {"a": "[[[[", 'b"]': ["\\", None]}),
        ('[{"a":1},[2,[3]]]', [{"a": 1}, [2, None]]),
        ("[[],{}]", [[], {}]),
    ],
)
def test_what_lies_below_is_null_and_the_rest_as_it_was(document: str, expected: Any) -> None:
    assert msgspec.json.decode(cut_off(document.encode(), 2)) == expected
    assert cut_off(document.encode()) == document.encode()


def test_object_with_a_deep_field_is_still_known_by_its_name() -> None:
    deep = json.loads('{"metadata":{"name":"m"},"unknown":0,"data":{"a":"b"}}')
    text = json.dumps(deep).replace("0", nested(9_999, '"]"'))
    obj = codec_of(ConfigMap).decode(text.encode())
    assert (obj.name, obj.data) == ("m", {"a": "b"})


def test_deep_field_of_a_known_name_is_named() -> None:
    patches = '[{"manager":"m","time":' + nested(9_999) + "}]"
    text = '{"metadata":{"name":"m"},"spec":{"runtimeRef":{"name":"r"},"runtimePatches":' + patches + "}}"
    with pytest.raises(DecodeError, match=r"\$\.spec\.runtimePatches\[0\]\.time"):
        codec_of(TrainJob).decode(text.encode())
