# SPDX-License-Identifier: Apache-2.0
"""Specifications of pods, in Pods and in templates: what no recorded default and no rule of `rules/pods.json` says."""

from collections.abc import Iterable, Iterator

from trainwright.api import names
from trainwright.api.amounts import Amounts, add
from trainwright.api.amounts import read as read_amounts
from trainwright.api.objects import Document
from trainwright.api.quantity import Quantity
from trainwright.api.selectors import SelectorError, label_selector_of
from trainwright.controller.local.apiserver.kinds.formats import Errors
from trainwright.controller.local.apiserver.kinds.metadata import ensure_filled, entries, part, set_or_drop
from trainwright.controller.local.apiserver.kinds.rules import register
from trainwright.controller.local.types.errors import invalid, required
from trainwright.controller.local.types.model import builtin

TEMPLATES = {
    "CronJob": "spec.jobTemplate.spec.template",
    "PodTemplate": "template",
    **dict.fromkeys(("DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController"), "spec.template"),
    "StatefulSet": "spec.template",
}
"""Kinds with a template of pods, and where it is."""
CONTAINER_FIELDS = ("initContainers", "containers", "ephemeralContainers")
_SOURCES = frozenset(builtin("io.k8s.api.core.v1.Volume").fields) - {"name"}
_CONTAINER_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_ONE = 10**9
"""Billionths in one."""


def default_pod_spec(spec: Document) -> None:
    """Defaults that Pods and templates share."""
    for volume in entries(spec, "volumes"):
        if all(volume.get(source) is None for source in _SOURCES):
            volume["emptyDir"] = {}
        if volume.get("image") is not None:
            ensure_filled(volume["image"], "pullPolicy", pull_policy(volume["image"].get("reference") or ""))
    set_account(spec, spec.get("serviceAccountName") or spec.get("serviceAccount") or "")
    for field in CONTAINER_FIELDS:
        for container in entries(spec, field):
            ensure_filled(container, "imagePullPolicy", pull_policy(container.get("image") or ""))


def fixed_part(spec: Document, fields: Iterable[str], of_containers: str) -> Document:
    """A specification without what may change: some fields of it, of which `affinity` is that to nodes, and one of its
    containers."""
    made = {name: value for name, value in spec.items() if name not in fields}
    if "affinity" in fields:
        made["affinity"] = {kind: one for kind, one in part(spec, "affinity").items() if kind != "nodeAffinity"}
    for kind in ("containers", "initContainers"):
        made[kind] = [{name: one[name] for name in one if name != of_containers} for one in entries(spec, kind)]
    return made


def set_account(spec: Document, name: str) -> None:
    """Name the service account, under the old field too: both are always the same."""
    for field in ("serviceAccountName", "serviceAccount"):
        set_or_drop(spec, field, name or None)


def pull_policy(image: str) -> str:
    """The default `imagePullPolicy`: Always for the tag `latest`, also when it is implied, else IfNotPresent."""
    name, at_digest, _ = image.rpartition("/")[2].partition("@")
    tag = name.partition(":")[2] or ("" if at_digest or not name else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


# -------------------------------------------------------------- checks that rules call


@register("resources")
def resource_errors(resources: Document, field: str, _: Document) -> Errors:
    """Errors of requests and limits of a container: resources cannot be overcommitted but for those of Kubernetes."""
    limits, requests = read_amounts(resources.get("limits")), read_amounts(resources.get("requests"))
    found: Errors = []
    for kind, listed in (("limits", limits), ("requests", requests)):
        for name, amount in listed.items():
            found += _amount_errors(name, amount, f"{field}.{kind}[{name}]")
    for name, amount in requests.items():
        limit, native = limits.get(name), is_native(name)
        if limit is None:
            if not native:
                found.append(required(f"{field}.limits", "Limit must be set for non overcommitable resources"))
        elif amount > limit or (amount != limit and not native):
            text = f"must be {'less than or ' if native else ''}equal to {name} limit of {limit.canonical()}"
            found.append(invalid(f"{field}.requests", amount.canonical(), text))
    return found


def is_native(name: str) -> bool:
    """Whether a resource is Kubernetes' own."""
    return "/" not in name or "kubernetes.io/" in name


def _amount_errors(name: str, amount: Quantity, field: str) -> Errors:
    """Errors of an amount: of a known resource, not negative, and whole where the resource is counted."""
    problems = names.qualified(name)
    if "/" not in name and name not in _CONTAINER_RESOURCES and not name.startswith("hugepages-"):
        problems.append("must be a standard resource for containers, or fully qualified")
    found = [invalid(field, name, text) for text in problems]
    if amount.nanos < 0:
        found.append(invalid(field, amount.canonical(), "must not be negative"))
    if not is_native(name) and amount.nanos % _ONE:
        found.append(invalid(field, amount.canonical(), "must be an integer"))
    return found


@register("selector of template")
def _selector_errors(spec: Document, field: str, _: Document) -> Errors:
    """The selector of a kind that keeps pods is there, and matches the labels of the template."""
    selector, template = spec.get("selector"), spec.get("template")
    selector_field = f"{field}.selector" if field else "selector"
    found = [required(selector_field)] if selector is None else []
    if template is None or selector == {}:
        return found
    labels = part(part(template, "metadata"), "labels")
    text = "`selector` does not match template `labels`"
    unmatched = [invalid(f"{field}.template.metadata.labels", labels or None, text)]
    if selector is None:
        return found + unmatched
    matches = selects(selector, labels)
    if matches is None:
        return [invalid(selector_field, selector, "cannot be read")]
    return unmatched if matches is False else []


def selects(selector: Document, labels: dict[str, str]) -> bool | None:
    """Whether a selector, or a map of labels, matches labels; None for one that cannot be read."""
    plain = not {"matchLabels", "matchExpressions"} & set(selector)
    try:
        matches = label_selector_of({"matchLabels": selector} if plain else selector)
    except SelectorError:
        return None
    return matches is not None and matches.matches(labels)


# -------------------------------------------------------------- warnings


def pod_spec_warnings(spec: Document, field: str) -> Iterator[str]:
    """What people meet: variables that hide others."""
    for kind in CONTAINER_FIELDS:
        for index, container in enumerate(entries(spec, kind)):
            seen: set[str] = set()
            for number, variable in enumerate(entries(container, "env")):
                name, value = variable.get("name") or "", variable.get("value") or ""
                reference = f"$({name})"
                # A value that goes on from the earlier one is fine.
                extends = variable.get("valueFrom") is None and reference in value and value != reference
                if name in seen and not extends:
                    where = f"{field}.{kind}[{index}].env[{number}]"
                    yield f'{where}: hides previous definition of "{name}", which may be dropped when using apply'
                seen.add(name)


def quality_of_service(spec: Document) -> str:
    """The QoS class of a pod. https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/."""
    requests: Amounts = {}
    limits: Amounts = {}
    guaranteed = True
    for container in (*entries(spec, "containers"), *entries(spec, "initContainers")):
        resources = part(container, "resources")
        add(requests, _computed(resources.get("requests")))
        limited = _computed(resources.get("limits"))
        add(limits, limited)
        guaranteed = guaranteed and len(limited) == 2
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def _computed(listed: Document | None) -> Amounts:
    return {
        name: amount for name, amount in read_amounts(listed).items() if name in ("cpu", "memory") and amount.nanos > 0
    }
