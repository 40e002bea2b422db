# SPDX-License-Identifier: Apache-2.0
"""What a client is warned of about a pod specification that is valid.

Left out: overlapping paths in projected volumes, old annotations of AppArmor and seccomp, old forms of addresses.
"""

from collections.abc import Iterator

from trainwright.api.objects import Document
from trainwright.api.quantity import Quantity
from trainwright.api.validation import names
from trainwright.controller.local.apiserver.kinds.builtin.amounts import read
from trainwright.controller.local.apiserver.kinds.builtin.parts import entries, part, texts
from trainwright.controller.local.apiserver.kinds.builtin.pods.defaults import CONTAINER_FIELDS
from trainwright.controller.local.apiserver.kinds.builtin.pods.placement import PREFERRED, REQUIRED
from trainwright.controller.local.values import quoted

_NO_SELECTOR = "a null labelSelector results in matching no pod"
_OLD_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
_OLD_VOLUMES = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_BYTES = ("memory", "ephemeral-storage")


def specification_warnings(spec: Document, field: str) -> list[str]:
    """All warnings, in the order of the real server."""
    found = _node_warnings(spec, field)
    for index, constraint in enumerate(entries(spec, "topologySpreadConstraints")):
        where, key = f"{field}.topologySpreadConstraints[{index}]", constraint.get("topologyKey") or ""
        if key in _OLD_LABELS:
            found.append(f"{where}.topologyKey: {key} is {_OLD_LABELS[key]}")
        if constraint.get("labelSelector") is None:
            found.append(f"{where}.labelSelector: {_NO_SELECTOR}")
    for index, volume in enumerate(entries(spec, "volumes")):
        found += [f"{field}.volumes[{index}].{name}: {text}" for name, text in _OLD_VOLUMES.items() if volume.get(name)]
    found += _doubled(spec, "hostAliases", "ip", field) + _doubled(spec, "imagePullSecrets", "name", field)
    for index, secret in enumerate(entries(spec, "imagePullSecrets")):
        if not secret.get("name"):
            found.append(f'{field}.imagePullSecrets[{index}].name: invalid empty name ""')
    found += _fractions(spec.get("overhead"), f"{field}.overhead")
    for container, where in _containers(spec, field):
        for kind in _BYTES:
            for name in ("limits", "requests"):
                amounts = part(part(container, "resources"), name)
                found += _fractions({kind: amounts[kind]} if kind in amounts else None, f"{where}.resources.{name}")
        found += _hidden_variables(container, where)
    found += _port_warnings(spec, field) + _port_name_warnings(spec, field)
    return found + _affinity_warnings(spec, field)


def _containers(spec: Document, field: str) -> Iterator[tuple[Document, str]]:
    for name in CONTAINER_FIELDS:
        for index, container in enumerate(entries(spec, name)):
            yield container, f"{field}.{name}[{index}]"


def _node_warnings(spec: Document, field: str) -> list[str]:
    found = [
        f"{field}.nodeSelector[{key}]: {_OLD_LABELS[key]}" for key in part(spec, "nodeSelector") if key in _OLD_LABELS
    ]
    affinity, where = part(part(spec, "affinity"), "nodeAffinity"), f"{field}.affinity.nodeAffinity"
    for index, term in enumerate(entries(part(affinity, REQUIRED), "nodeSelectorTerms")):
        found += _term_warnings(term, f"{where}.{REQUIRED}.nodeSelectorTerms[{index}]", values=False)
    for index, weighted in enumerate(entries(affinity, PREFERRED)):
        found += _term_warnings(part(weighted, "preference"), f"{where}.{PREFERRED}[{index}].preference", values=True)
    return found


def _term_warnings(term: Document, field: str, *, values: bool) -> list[str]:
    found: list[str] = []
    for index, requirement in enumerate(entries(term, "matchExpressions")):
        where, key = f"{field}.matchExpressions[{index}]", requirement.get("key") or ""
        if key in _OLD_LABELS:
            found.append(f"{where}.key: {key} is {_OLD_LABELS[key]}")
        for position, value in enumerate(texts(requirement, "values") if values else []):
            found += [f"{where}.values[{position}]: {value} is invalid, {text}" for text in names.label_value(value)]
    return found


def _doubled(spec: Document, name: str, key: str, field: str) -> list[str]:
    given = [one.get(key) or "" for one in entries(spec, name)]
    return [
        f"{field}.{name}[{index}].{key}: duplicate {key} {quoted(value)}"
        for index, value in enumerate(given)
        if value in given[:index]
    ]


def _fractions(amounts: Document | None, field: str) -> list[str]:
    return [
        f"{field}[{name}]: fractional byte value {quoted(amount.canonical())} is invalid, must be an integer"
        for name, amount in read(amounts).items()
        if name in _BYTES and amount != Quantity(amount.rounded_up() * 10**9)
    ]


def _hidden_variables(container: Document, field: str) -> list[str]:
    found: list[str] = []
    seen: set[str] = set()
    for index, variable in enumerate(entries(container, "env")):
        name, value = variable.get("name") or "", variable.get("value") or ""
        reference = f"$({name})"
        # A value that goes on from the earlier one is fine.
        extends = variable.get("valueFrom") is None and reference in value and value != reference
        if name in seen and not extends:
            text = f"hides previous definition of {quoted(name)}, which may be dropped when using apply"
            found.append(f"{field}.env[{index}]: {text}")
        seen.add(name)
    return found


def _port_warnings(spec: Document, field: str) -> list[str]:
    found: list[str] = []
    known: dict[tuple[int, str], list[tuple[str, str, int]]] = {}
    for container, where in _containers(spec, field):
        for index, port in enumerate(entries(container, "ports")):
            at, address, host = f"{where}.ports[{index}]", port.get("hostIP") or "", port.get("hostPort") or 0
            others = known.setdefault((port.get("containerPort") or 0, port.get("protocol") or ""), [])
            for other, other_address, other_host in others:
                if (address, host) == (other_address, other_host):
                    found.append(f"{at}: duplicate port definition with {other}")
                elif not host or not other_host:
                    found.append(f"{at}: overlapping port definition with {other}")
                elif host == other_host and bool(address) != bool(other_address):
                    found.append(f"{at}: dangerously ambiguous port definition with {other}")
            others.append((at, address, host))
    return found


def _port_name_warnings(spec: Document, field: str) -> list[str]:
    found: list[str] = []
    known: dict[str, str] = {}
    for container, where in _containers(spec, field):
        for index, port in enumerate(entries(container, "ports")):
            name, at = port.get("name"), f"{where}.ports[{index}]"
            if not name:
                continue
            first = known.setdefault(name, at)
            if first != at:
                text = f"services and probes that select ports by name will use {first}"
                found.append(f"{at}: duplicate port name {quoted(name)} with {first}, {text}")
    return found


def _affinity_warnings(spec: Document, field: str) -> list[str]:
    found: list[str] = []
    for name in ("podAffinity", "podAntiAffinity"):
        affinity, where = part(part(spec, "affinity"), name), f"{field}.affinity.{name}"
        for index, term in enumerate(entries(affinity, REQUIRED)):
            if term.get("labelSelector") is None:
                found.append(f"{where}.{REQUIRED}[{index}].labelSelector: {_NO_SELECTOR}")
        for index, weighted in enumerate(entries(affinity, PREFERRED)):
            if part(weighted, "podAffinityTerm").get("labelSelector") is None:
                found.append(f"{where}.{PREFERRED}[{index}].podAffinityTerm.labelSelector: {_NO_SELECTOR}")
    return found
