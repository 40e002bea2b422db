# SPDX-License-Identifier: Apache-2.0
"""The values of the charts: authored here once. values.yaml, its schema and the tables on pages are made from them."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from trainwright.api.manifest import dump
from trainwright.controller.trainer.assembly.features import GATES

ROOT = Path(__file__).resolve().parent.parent.parent
_SCHEMA = ROOT / "api" / "config" / "v1alpha1" / "configuration.schema.json"
_SETTINGS = ROOT / "config" / "manager" / "controller_manager_config.yaml"
_DEPLOYMENT = ROOT / "config" / "manager" / "deployment.yaml"
_RUNTIMES = ROOT / "config" / "runtimes"
_DRAFT = "https://json-schema.org/draft/2020-12/schema"
NEEDS_MORE = ("torch-distributed-with-cache",)
"""Runtimes that need other programs in the cluster, and are off by default."""

Schema = dict[str, Any]
_TEXT: Schema = {"type": "string"}
_SWITCH: Schema = {"type": "boolean"}
_MAP: Schema = {"type": "object"}
_TEXTS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
_RESOURCES: Schema = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"claims": {"type": "array"}, "limits": {"type": "object"}, "requests": {"type": "object"}},
}
_AFFINITY: Schema = {
    "type": "object",
    "additionalProperties": False,
    "properties": {name: {"type": "object"} for name in ("nodeAffinity", "podAffinity", "podAntiAffinity")},
}
_RULE: Schema = {
    "type": "object",
    "required": ["apiGroups", "resources", "verbs"],
    "additionalProperties": False,
    "properties": {
        name: {"type": "array", "items": {"type": "string"}}
        for name in ("apiGroups", "resourceNames", "resources", "verbs")
    },
}


@dataclass(frozen=True, slots=True)
class Value:
    """One value."""

    path: str
    """As `helm --set` takes it: dots between the names, and a backslash before a dot in a name."""
    default: Any
    schema: Schema
    effect: str
    """One sentence."""

    @property
    def keys(self) -> list[str]:
        """The names."""
        return [name.replace("\\.", ".") for name in re.split(r"(?<!\\)\.", self.path)]


def manager_values() -> list[Value]:
    """Those of the chart `trainwright`."""
    settings = yaml.safe_load(_SETTINGS.read_text())
    (container,) = yaml.safe_load(_DEPLOYMENT.read_text())["spec"]["template"]["spec"]["containers"]
    config = {name: value for name, value in settings.items() if name not in {"apiVersion", "kind"}}
    config["featureGates"] = {}
    return [
        Value("image.repository", "trainwright", _TEXT, "Name of the manager's image, without tag and digest."),
        Value(
            "image.tag",
            "",
            {"type": ["string", "number"]},
            "Its tag, in quotes; the chart's `appVersion` unless it or the digest is set.",
        ),
        Value(
            "image.digest",
            "",
            _TEXT,
            "Its digest, `sha256:…`, which decides which image runs.",
        ),
        Value(
            "image.pullPolicy",
            "IfNotPresent",
            {"enum": ["Always", "IfNotPresent", "Never"]},
            "When nodes pull it.",
        ),
        Value(
            "image.pullSecrets",
            [],
            {
                "type": "array",
                "items": {"type": "object", "required": ["name"], "properties": {"name": _TEXT}},
            },
            "Secrets to pull it with: `[{name: …}]`.",
        ),
        Value("replicas", 2, {"type": "integer"}, "Replicas of the manager; one of them leads."),
        Value("resources", container["resources"], _RESOURCES, "Requests and limits of the manager."),
        Value("podAnnotations", {}, _TEXTS, "More annotations of its pods."),
        Value("nodeSelector", {}, _TEXTS, "Labels of the nodes that its pods may run on."),
        Value("tolerations", [], {"type": "array", "items": _MAP}, "Taints of nodes that its pods tolerate."),
        Value("affinity", {}, _AFFINITY, "Affinity of its pods."),
        Value("priorityClassName", "", _TEXT, "Priority class of its pods."),
        Value(
            "config",
            config,
            {"$ref": "#/$defs/Configuration"},
            "The [Configuration](../api/config.trainer.kubeflow.org-v1alpha1.md), whose gates and plugins determine the"
            " roles; ports, Service, network policy and the policy on pods/exec follow it.",
        ),
        Value(
            "onlyNamespace",
            "",
            _TEXT,
            "The only namespace whose TrainJobs the manager manages; empty for all.",
        ),
        Value("certManager.enabled", False, _SWITCH, "Certificates from cert-manager, which must be installed."),
        Value("networkPolicy.enabled", True, _SWITCH, "A NetworkPolicy that lets in traffic to the manager's ports."),
        Value("prometheus.serviceMonitor", False, _SWITCH, "A ServiceMonitor for the Prometheus operator."),
        Value("prometheus.rules", False, _SWITCH, "The [alerts](alerts.md) as a PrometheusRule."),
        Value("prometheus.labels", {}, _TEXTS, "Labels of both, by which a Prometheus selects them."),
        Value(
            "extraRules",
            [],
            {"type": "array", "items": _RULE},
            "More rules for the ClusterRole, for plugins of other distributions; `trainwright rbac` prints them.",
        ),
        Value(
            "jobset.install",
            False,
            _SWITCH,
            "Install JobSet with the chart, if the chart was packaged with it and the cluster has none.",
        ),
    ]


def runtimes_values() -> list[Value]:
    """Those of the chart `trainwright-runtimes`."""
    return [
        *(
            Value(
                "runtimes." + name.replace(".", "\\."),
                name not in NEEDS_MORE,
                _SWITCH,
                f"The ClusterTrainingRuntime `{name}`{', which needs LeaderWorkerSet' if name in NEEDS_MORE else ''}.",
            )
            for name in runtimes()
        ),
        Value(
            "images",
            {},
            _TEXTS,
            "Images to use instead of those of the runtimes, by their name without tag, such as `pytorch/pytorch`.",
        ),
        Value(
            "exemptFromWebhooks",
            False,
            _SWITCH,
            "A label that exempts the runtimes from the webhooks, to apply them before the manager runs.",
        ),
    ]


def runtimes() -> dict[str, Path]:
    """The files of the shipped runtimes, by name."""
    found = [*_RUNTIMES.glob("*-*.yaml"), *(_RUNTIMES / "data-cache").glob("torch-*.yaml")]
    return {path.stem: path for path in sorted(found, key=lambda path: path.stem)}


def values_file(values: Sequence[Value], head: str) -> str:
    """The text of values.yaml: each value under its comment."""
    lines = [head]
    open_sections: list[str] = []
    for value in values:
        *sections, name = value.keys
        for depth, section in enumerate(sections):
            if open_sections[depth : depth + 1] != [section]:
                lines.append(f"{'  ' * depth}{section}:")
        open_sections = sections
        indent = "  " * len(sections)
        lines.append(f"{indent}# {_plain(value.effect)}")
        body = dump({name: value.default}).rstrip("\n")
        lines += [f"{indent}{line}" for line in body.splitlines()]
    return "\n".join(lines) + "\n"


def schema(values: Sequence[Value], title: str) -> str:
    """The text of values.schema.json, which Helm holds values against."""
    document: Schema = {"$schema": _DRAFT, "title": title, **_closed()}
    # Helm gives it to every chart.
    document["properties"]["global"] = {"type": "object"}
    for value in values:
        *sections, name = value.keys
        place = document
        for section in sections:
            if section not in place["properties"]:
                place["properties"][section] = _closed()
                place["required"].append(section)
            place = place["properties"][section]
        if value.default:
            # A key without a value in a file of values deletes the default.
            place["required"].append(name)
        place["properties"][name] = {"description": _plain(value.effect), **value.schema}
    if any("$ref" in value.schema for value in values):
        document["$defs"] = _configuration()
    if "runtimes" in document["properties"]:
        document["properties"]["runtimes"] |= _only(document["properties"]["runtimes"]["properties"])
    if "jobset" in document["properties"]:
        # The rest is for JobSet's own chart.
        del document["properties"]["jobset"]["additionalProperties"]
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def table(values: Sequence[Value], *, links: bool = True) -> str:
    """The values as a table of Markdown."""
    lines = ["| value | default | effect |", "| --- | --- | --- |"]
    for value in values:
        default = (
            json.dumps(value.default) if not isinstance(value.default, dict) or not value.default else "as shipped"
        )
        effect = value.effect if links else _plain(value.effect)
        lines.append(f"| `{value.path}` | {default if default == 'as shipped' else f'`{default}`'} | {effect} |")
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """Without the links of Markdown."""
    while "](" in text:
        before, _, rest = text.partition("](")
        text = before.replace("[", "", 1) + rest.partition(")")[2]
    return text


def _only(names: Collection[str]) -> Schema:
    """Makes Helm name the names that there are when it refuses another one."""
    return {"propertyNames": {"enum": sorted(names)}}


def _closed() -> Schema:
    return {"type": "object", "additionalProperties": False, "required": [], "properties": {}}


def _configuration() -> Mapping[str, Schema]:
    """The schema of the Configuration, without what every Configuration says and with the names of the gates."""
    document: Schema = json.loads(_SCHEMA.read_text())
    definitions: dict[str, Schema] = document.pop("$defs")
    properties = {name: one for name, one in document["properties"].items() if name not in {"apiVersion", "kind"}}
    names = [*GATES, *sorted({f"All{gate.stage}" for gate in GATES.values()} | {"AllBeta"})]
    properties["featureGates"] = {**_closed(), **_only(names), "properties": dict.fromkeys(names, _SWITCH)}
    configuration = {**_closed(), "description": document["description"], "properties": properties}
    return {"Configuration": configuration, **definitions}
