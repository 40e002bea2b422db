# SPDX-License-Identifier: Apache-2.0
"""Protobuf bodies: what is read, and what is said of broken ones.

tests/integration/local/test_views_on_the_real_server.py decodes what the real API server encodes.
"""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.controller.local.apiserver.request.protobuf import ProtobufError, decode
from trainwright.controller.local.types.model import builtin


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def entry(number: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def message(*entries: tuple[int, int | bytes | str]) -> bytes:
    return b"".join(entry(number, value) for number, value in entries)


def body(api_version: str, kind: str, *entries: tuple[int, int | bytes | str]) -> bytes:
    return b"k8s\0" + message((1, message((1, api_version), (2, kind))), (2, message(*entries)), (3, ""), (4, ""))


def number_of(model: str, name: str) -> int:
    return next(number for number, field in builtin(model).wire.items() if field.name == name)


METADATA = message((1, "a"), (2, ""), (3, "n"), (8, b""), (11, message((1, "l"), (2, "1"))), (14, "example.com/f"))
DECODED = {"name": "a", "namespace": "n", "labels": {"l": "1"}, "finalizers": ["example.com/f"]}


def test_maps_and_bytes() -> None:
    data = [(2, message((1, key), (2, value))) for key, value in (("x", "1"), ("y", ""))]
    found = decode(body("v1", "ConfigMap", (1, METADATA), *data, (3, message((1, "b"), (2, b"\0\xff")))))
    assert found == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": DECODED,
        "data": {"x": "1", "y": ""},
        "binaryData": {"b": "AP8="},
    }


def test_numbers_times_and_zeros() -> None:
    lease = message((1, "h"), (2, 0), (3, message((1, 1_700_000_000), (2, 123_456_789))), (5, -1))
    assert decode(body("coordination.k8s.io/v1", "Lease", (1, METADATA), (2, lease)))["spec"] == {
        "holderIdentity": "h",
        # A pointer to zero.
        "leaseDurationSeconds": 0,
        "acquireTime": "2023-11-14T22:13:20.123456Z",
        "leaseTransitions": -1,
    }
    deleted = message((1, "a"), (9, message((1, 1_700_000_000), (2, 0))))
    assert decode(body("v1", "Secret", (1, deleted), (3, "")))["metadata"] == {
        "name": "a",
        "deletionTimestamp": "2023-11-14T22:13:20Z",
    }


def test_inlined_fields_and_unions() -> None:
    source = message((2, message((1, ""))))  # emptyDir
    volume = message((1, "v"), (2, source))
    quantity = message((1, "memory"), (2, message((1, "1Gi"))))
    container = message((1, "c"), (8, message((1, quantity))))
    pod = decode(body("v1", "Pod", (2, message((1, volume), (2, container)))))
    assert pod["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]
    assert pod["spec"]["containers"] == [{"name": "c", "resources": {"limits": {"memory": "1Gi"}}}]
    ports = [message((3, 80), (4, message((1, 1), (2, 0), (3, "http")))), message((3, 81), (4, message((2, 8081))))]
    service = decode(body("v1", "Service", (2, message(*((1, port) for port in ports)))))
    assert [port["targetPort"] for port in service["spec"]["ports"]] == ["http", 8081]


def test_json_inside() -> None:
    entry_ = message((1, "m"), (7, message((1, b'{"f:data":{}}'))))
    found = decode(body("v1", "ConfigMap", (1, message((17, entry_)))))
    assert found["metadata"]["managedFields"] == [{"manager": "m", "fieldsV1": {"f:data": {}}}]
    with pytest.raises(ProtobufError, match="JSON is malformed"):
        decode(body("v1", "ConfigMap", (1, message((17, message((7, message((1, b"{")))))))))
    assert decode(body("v1", "ConfigMap", (1, message((17, message((7, b"")))))))["metadata"]["managedFields"] == [{}]


def test_kinds() -> None:
    assert decode(body("", "", (1, METADATA)), ("v1", "Secret"))["kind"] == "Secret"
    options = decode(body("batch/v1", "DeleteOptions", (1, 0), (4, "Foreground"), (5, "All")))
    assert options == {
        "apiVersion": "batch/v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Foreground",
        "dryRun": ["All"],
    }
    extra = message((1, "k"), (2, message((1, "x"), (1, "y"))))
    review = decode(body("authentication.k8s.io/v1", "TokenReview", (3, message((2, message((4, extra)))))))
    assert review["status"]["user"]["extra"] == {"k": ["x", "y"]}
    with pytest.raises(ProtobufError, match="in JSON alone"):
        decode(body("apiextensions.k8s.io/v1", "CustomResourceDefinition"))
    with pytest.raises(ProtobufError, match=r'no kind "Widget" is registered for version "example\.com/v1"'):
        decode(body("example.com/v1", "Widget"))


def test_repeated_numbers_and_unknown_fields() -> None:
    groups = number_of("io.k8s.api.core.v1.PodSecurityContext", "supplementalGroups")
    context = number_of("io.k8s.api.core.v1.PodSpec", "securityContext")
    pod = decode(body("v1", "Pod", (2, message((context, message((groups, 1), (groups, 300), (999, "x")))))))
    assert pod["spec"]["securityContext"]["supplementalGroups"] == [1, 300]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "provided data does not appear to be a protobuf message"),
        (b'{"a":1}', "provided data does not appear to be a protobuf message"),
        (b"k8s\0\x0a", "unexpected EOF"),
        (b"k8s\0\x0a\x05x", "unexpected EOF"),
        (b"k8s\0" + b"\xff" * 20, "integer overflow"),
        (b"k8s\0\x00", "illegal tag 0"),
        (b"k8s\0\x0b", "illegal wireType 3"),
        (b"k8s\0\x08\x01", "wrong wireType = 0"),
        (body("v1", "ConfigMap", (1, 5)), "wrong wireType = 0 for a field of type ObjectMeta"),
        (body("v1", "ConfigMap", (2, 5)), "wrong wireType = 0"),
        (body("v1", "Pod", (2, message((4, "x")))), "wrong wireType = 2|packed"),
        (body("v1", "ConfigMap", (1, message((8, message((1, 1 << 62)))))), "a time is out of range"),
        (body("v1", "ConfigMap", (1, message((8, message((1, "x")))))), "wrong wireType = 2 for an integer"),
        (b"k8s\0" + message((3, "gzip")), "encoded in another way"),
    ],
)
def test_broken_bodies(data: bytes, said: str) -> None:
    with pytest.raises(ProtobufError, match=said) as raised:
        decode(data)
    assert (raised.value.code, raised.value.reason) == (400, "BadRequest")


POD = body(
    *("v1", "Pod"),
    (1, METADATA),
    (2, message((1, message((1, "v"), (2, message((2, b""))))), (2, message((1, "c"), (8, b""))))),
)


def changed() -> Iterable[bytes]:
    """The body of a pod with each byte changed, and cut at each byte."""
    for index in range(4, len(POD)):
        yield POD[:index]
        for value in (0, 1, 0x7F, 0x80, 0xFF):
            yield POD[:index] + bytes([value]) + POD[index + 1 :]


def test_every_broken_byte_is_an_error_or_a_document() -> None:
    for data in changed():
        try:
            assert isinstance(decode(data, ("v1", "Pod")), dict)
        except ProtobufError as error:
            assert str(error)  # noqa: PT017


@given(st.binary(max_size=200), st.sampled_from([("v1", "Pod"), ("v1", "Event"), ("batch/v1", "Job")]))
def test_nonsense(data: bytes, kind: tuple[str, str]) -> None:
    try:
        assert isinstance(decode(b"k8s\0" + message((1, message((1, kind[0]), (2, kind[1]))), (2, data))), dict)
    except ProtobufError as error:
        assert str(error)  # noqa: PT017
