# SPDX-License-Identifier: Apache-2.0
"""What OpenAPI does not say of Kubernetes' Go types: types that read themselves, embedded structs, named strings."""

import re
from collections.abc import Callable
from typing import Any

from trainwright.controller.local.apiserver.apply.values import quoted
from trainwright.controller.local.apiserver.durations import nanoseconds

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"

Read = Callable[[Any], tuple[str, str] | None]
"""Looks at a value; None if it is good, else the Go type that was expected and, if there is one, a text of its own."""

OPAQUE = frozenset(
    {
        "io.k8s.apimachinery.pkg.runtime.RawExtension",
        f"{_META}.FieldsV1",
        *(f"{_EXTENSIONS}.{name}" for name in ("JSON", "JSONSchemaPropsOrArray")),
        f"{_EXTENSIONS}.JSONSchemaPropsOrStringArray",
    }
)
"""Models of anything."""

_QUANTITY = re.compile(r"([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)")
_GOOD_QUANTITY = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?")
_NOT_A_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_NO_SUFFIX = "unable to parse quantity's suffix"
_NO_NUMBER = "unable to parse numeric part of quantity"
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


def kind_of(value: Any, wanted: str = "") -> str:
    """A JSON value as Go's decoder names it; numbers that do not fit an integer are shown."""
    if type(value) is float and wanted.startswith("int"):
        return f"number {value}"
    names = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}
    return names[type(value)]


def _time(value: Any) -> tuple[str, str] | None:
    return _time_of(value, "2006-01-02T15:04:05Z07:00", _PARTS)


def _micro_time(value: Any) -> tuple[str, str] | None:
    return _time_of(value, "2006-01-02T15:04:05.000000Z07:00", _MICRO_PARTS)


_PARTS = (
    (re.compile(r"\d{4}"), "2006"),
    (re.compile("-"), "-"),
    (re.compile(r"\d\d"), "01"),
    (re.compile("-"), "-"),
    (re.compile(r"\d\d"), "02"),
    (re.compile("T"), "T"),
    (re.compile(r"\d\d"), "15"),
    (re.compile(":"), ":"),
    (re.compile(r"\d\d"), "04"),
    (re.compile(":"), ":"),
    (re.compile(r"\d\d(\.\d+)?"), "05"),
    (re.compile(r"Z|[+-]\d\d:\d\d"), "Z07:00"),
)
_MICRO_PARTS = (
    *_PARTS[:-2],
    (re.compile(r"\d\d"), "05"),
    (re.compile(r"\.\d{6}"), ".000000"),
    _PARTS[-1],
)


def _time_of(value: Any, layout: str, parts: tuple[tuple[re.Pattern[str], str], ...]) -> tuple[str, str] | None:
    if type(value) is not str:
        return "string", ""
    rest = value
    for pattern, element in parts:
        found = pattern.match(rest)
        if found is None:
            return (
                "",
                f"parsing time {quoted(value)} as {quoted(layout)}: cannot parse {quoted(rest)} as {quoted(element)}",
            )
        rest = rest[found.end() :]
    return ("", f"parsing time {quoted(value)}: extra text: {quoted(rest)}") if rest else None


def _quantity(value: Any) -> tuple[str, str] | None:
    if type(value) is bool or type(value) not in (str, int, float):
        return "", _NOT_A_QUANTITY
    text = value.strip() if type(value) is str else str(value)
    if _GOOD_QUANTITY.fullmatch(text):
        return None
    found = _QUANTITY.fullmatch(text)
    if found is None:
        return "", _NOT_A_QUANTITY
    return "", _NO_NUMBER if found[1].count(".") > 1 or not re.search("[0-9]", found[1]) else _NO_SUFFIX


def _int_or_string(value: Any) -> tuple[str, str] | None:
    good = type(value) is str or (type(value) is int and -(2**31) <= value < 2**31)
    return None if good else ("int32", "")


def _schema_or_bool(value: Any) -> tuple[str, str] | None:
    return None if type(value) in (bool, dict) else ("", "boolean or JSON schema expected")


def _duration(value: Any) -> tuple[str, str] | None:
    if type(value) is not str:
        return "string", ""
    try:
        nanoseconds(value)
    except ValueError as error:
        return "", str(error)
    return None


SPECIAL: dict[str, Read] = {
    "Time": _time,
    "MicroTime": _micro_time,
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "Duration": _duration,
    "JSONSchemaPropsOrBool": _schema_or_bool,
}
"""Types that read themselves, by the last part of the model's name."""

SELF_READING = frozenset(
    {
        f"{_META}.Time",
        f"{_META}.MicroTime",
        f"{_META}.Duration",
        f"{_EXTENSIONS}.JSONSchemaPropsOrBool",
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    }
)

_HANDLER: dict[str, str] = dict.fromkeys(("exec", "httpGet", "tcpSocket", "grpc", "sleep"), "ProbeHandler")
_REFERENCE = {"name": "LocalObjectReference"}
_VOLUMES = (
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "glusterfs",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "persistentVolumeClaim",
    "photonPersistentDisk",
    "portworxVolume",
    "projected",
    "quobyte",
    "rbd",
    "scaleIO",
    "secret",
    "storageos",
    "vsphereVolume",
)

EMBEDDED: dict[str, dict[str, str]] = {
    "RuleWithOperations": dict.fromkeys(("apiGroups", "apiVersions", "resources", "scope"), "Rule"),
    "Probe": _HANDLER,
    "Volume": dict.fromkeys(_VOLUMES, "VolumeSource"),
    "PersistentVolumeSpec": dict.fromkeys([*_VOLUMES, "local"], "PersistentVolumeSource"),
    **dict.fromkeys(
        (
            "ConfigMapKeySelector",
            "SecretKeySelector",
            "ConfigMapEnvSource",
            "SecretEnvSource",
            "ConfigMapProjection",
            "SecretProjection",
            "ConfigMapVolumeSource",
        ),
        _REFERENCE,
    ),
}
"""Fields that a struct has from one embedded in it, which messages name too."""

STRINGS: dict[tuple[str, str], str] = {
    ("Container", "imagePullPolicy"): "v1.PullPolicy",
    ("Container", "terminationMessagePolicy"): "v1.TerminationMessagePolicy",
    ("ContainerPort", "protocol"): "v1.Protocol",
    ("Toleration", "operator"): "v1.TolerationOperator",
    ("Toleration", "effect"): "v1.TaintEffect",
    ("PersistentVolumeClaimSpec", "accessModes"): "v1.PersistentVolumeAccessMode",
    ("JobSpec", "completionMode"): "v1.CompletionMode",
    ("JobSpec", "podReplacementPolicy"): "v1.PodReplacementPolicy",
    ("LabelSelectorRequirement", "operator"): "v1.LabelSelectorOperator",
    ("RuleWithOperations", "operations"): "v1.OperationType",
    ("RuleWithOperations", "scope"): "v1.ScopeType",
    **{
        (f"{kind}Webhook", field): f"v1.{name}"
        for kind in ("Mutating", "Validating")
        for field, name in (
            ("failurePolicy", "FailurePolicyType"),
            ("matchPolicy", "MatchPolicyType"),
            ("sideEffects", "SideEffectClass"),
            ("reinvocationPolicy", "ReinvocationPolicyType"),
        )
    },
    ("PodSpec", "restartPolicy"): "v1.RestartPolicy",
    ("PodSpec", "dnsPolicy"): "v1.DNSPolicy",
    ("ServiceSpec", "type"): "v1.ServiceType",
    ("ServicePort", "protocol"): "v1.Protocol",
    ("Secret", "type"): "v1.SecretType",
    ("ObjectMeta", "uid"): "types.UID",
    ("OwnerReference", "uid"): "types.UID",
    ("ManagedFieldsEntry", "operation"): "v1.ManagedFieldsOperationType",
    ("CustomResourceDefinitionSpec", "scope"): "v1.ResourceScope",
    ("CustomResourceConversion", "strategy"): "v1.ConversionStrategyType",
}
"""Strings, and items of lists of strings, with a Go type of their own, where users meet them."""


def short_name(model: str) -> str:
    """The Go type of a model: its last two parts, such as `v1.PodSpec`."""
    return ".".join(model.split(".")[-2:])


def wrong_time(text: str) -> str | None:
    """What Go says of text that is no time; None if it is one."""
    wrong = _time(text)
    return None if wrong is None else wrong[1]


def wrong_base64_at(text: str) -> int | None:
    """Where text stops being base64, as Go counts; None if it is base64. Line breaks are ignored."""
    text = text.replace("\n", "").replace("\r", "")
    if _BASE64.fullmatch(text):
        return None
    found = re.match(r"[A-Za-z0-9+/]*", text)
    good = found.end() if found else 0
    if good == len(text):
        return len(text) - len(text) % 4 if len(text) % 4 == 1 else len(text)
    return good
