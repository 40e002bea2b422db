# SPDX-License-Identifier: Apache-2.0
"""What is served, described for discovery and OpenAPI."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

READ_AND_WRITE = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
"""The verbs of most built-in resources."""
CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""The verbs of custom resources, in the order in which they are listed."""
STATUS_VERBS = ("get", "patch", "update")
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STABILITY = {None: 0, "beta": 1, "alpha": 2}

Priority = tuple[int, int, int, int, str]


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource.

    Attributes:
        name: such as `status`.
        kind: of its bodies; empty for the kind of the resource.
        verbs: what can be done with it.
        group: of the kind; None for that of the resource.
        version: of the kind; None for that of the resource.
    """

    name: str
    verbs: tuple[str, ...] = STATUS_VERBS
    kind: str = ""
    group: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class DiscoveryResource:
    """A served resource in one version.

    Attributes:
        group: empty for core.
        version: such as `v1`.
        kind: such as `Pod`.
        plural: such as `pods`.
        singular: such as `pod`.
        namespaced: whether it lives in namespaces.
        verbs: what can be done with it.
        short_names: such as `po`.
        categories: such as `all`.
        subresources: sorted by name.
        custom: whether a CustomResourceDefinition defines it.
        stored_as: the apiVersion that it is stored in; empty for its own.
    """

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    verbs: tuple[str, ...] = READ_AND_WRITE
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    custom: bool = False
    stored_as: str = ""

    @property
    def group_version(self) -> str:
        """The apiVersion, such as `batch/v1`, or `v1` for core."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def stored(self) -> bool:
        """Whether there are objects of it; reviews and bindings are answered and forgotten."""
        return "list" in self.verbs


@dataclass(frozen=True, slots=True)
class DiscoveryGroup:
    """A group with its versions, the preferred one first.

    Attributes:
        name: empty for core.
        versions: resources by version, sorted by plural.
    """

    name: str
    versions: Mapping[str, tuple[DiscoveryResource, ...]]

    @property
    def preferred(self) -> str:
        """The version that clients take unless they ask for another."""
        return next(iter(self.versions))


_ORDER = (
    *("", "apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io"),
    *("autoscaling", "batch", "certificates.k8s.io", "networking.k8s.io", "policy", "rbac.authorization.k8s.io"),
    *("storage.k8s.io", "admissionregistration.k8s.io", "apiextensions.k8s.io", "scheduling.k8s.io"),
    *("coordination.k8s.io", "node.k8s.io", "discovery.k8s.io", "resource.k8s.io", "flowcontrol.apiserver.k8s.io"),
)


def groups_of(
    resources: Iterable[DiscoveryResource], preferred: Mapping[str, Iterable[str]] | None = None
) -> tuple[DiscoveryGroup, ...]:
    """Resources by group and version: Kubernetes' own groups in its order, then the others by name.

    Args:
        resources: what is served.
        preferred: the order of a group's versions; other groups with built-in kinds keep the order in which they come.
    """
    found: dict[str, dict[str, list[DiscoveryResource]]] = {}
    for resource in resources:
        found.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)
    names = sorted(found, key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name))
    return tuple(DiscoveryGroup(name, _versions(found[name], (preferred or {}).get(name, ()))) for name in names)


def _versions(
    found: Mapping[str, list[DiscoveryResource]], preferred: Iterable[str]
) -> dict[str, tuple[DiscoveryResource, ...]]:
    if all(resource.custom for resources in found.values() for resource in resources):
        order = sorted(found, key=priority)
    else:
        order = [*(version for version in preferred if version in found), *found]
    return {
        version: tuple(sorted(found[version], key=lambda resource: resource.plural)) for version in dict.fromkeys(order)
    }


def priority(version: str) -> Priority:
    """A key that sorts versions with the preferred one first: `v10`, `v2`, `v2beta1`, `v2alpha1`, then other names."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return 1, 0, 0, 0, version
    return 0, _STABILITY[match[2]], -int(match[1]), -int(match[3] or 0), ""
