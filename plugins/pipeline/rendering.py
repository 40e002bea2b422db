# SPDX-License-Identifier: Apache-2.0
"""The result of a build: the objects to apply, in order, and who set which value in them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import msgspec

from trainwright.plugins.contract import (
    Component,
    DuplicateObject,
    Override,
    PluginFailure,
    Reference,
    Setting,
)

BUILD = "build"


@dataclass(frozen=True, slots=True)
class Rendering:
    """The result of a build."""

    components: tuple[Component, ...]
    """In the order in which they are applied, which is by `Stage`."""
    settings: tuple[Setting, ...]
    """Who set which value, and why."""
    overrides: tuple[Override, ...]
    """Values that one plugin or user set and another one replaced."""


def attributed(component: Component, plugin: str) -> Component:
    """The component with the name of the plugin that built it. Raises PluginFailure if it is not a Component."""
    if isinstance(component, Component):
        return replace(component, plugin=plugin)
    raise PluginFailure(f"build returned {component!r} instead of a Component", plugin=plugin, phase=BUILD)


def in_order(components: Iterable[Component]) -> tuple[Component, ...]:
    """The components in the order of applying. Raises PluginFailure, DuplicateObject."""
    seen: dict[Reference, Component] = {}
    for component in components:
        _check(component)
        other = seen.setdefault(component.reference, component)
        if other is not component:
            name = component.reference.name
            problem = f"{component.resource.kind} {name} was already built by {other.plugin}; use another name"
            raise DuplicateObject(problem, plugin=component.plugin, phase=BUILD)
    return tuple(sorted(seen.values(), key=lambda component: component.order))


def _check(component: Component) -> None:
    """Raises PluginFailure for a document that no API server could take."""
    try:
        document = component.document
        identity = (document["apiVersion"], document["kind"], document["metadata"]["name"])
        msgspec.json.encode(document)
    except (TypeError, KeyError, msgspec.MsgspecError) as error:
        problem = f"build returned a document that cannot be applied: {type(error).__name__}: {error}"
        raise PluginFailure(problem, plugin=component.plugin, phase=BUILD) from error
    if not all(isinstance(part, str) and part for part in identity):
        problem = f"build returned a document without apiVersion, kind or name: {identity}"
        raise PluginFailure(problem, plugin=component.plugin, phase=BUILD)
    resource = component.resource
    if identity[:2] != (resource.api_version, resource.kind):
        problem = f"build returned a {identity[1]} of {identity[0]} as a {resource.kind} of {resource.api_version}"
        raise PluginFailure(problem, plugin=component.plugin, phase=BUILD)
