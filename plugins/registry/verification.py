# SPDX-License-Identifier: Apache-2.0
"""Checks at start-up that a plugin keeps the contract, so that no TrainJob finds out later.

Each check yields its problems as texts that say what was expected and what was found.
"""

import inspect
from collections.abc import Iterator
from typing import Any

import msgspec

from trainwright.plugins.contract import EXTENSION_POINTS, Rule

_CONTRACT = "trainwright.plugins.contract"
_DECLARATIONS = frozenset({"name", "before", "after", "rules", "Configuration", "off_by_default", "uses_installation"})


def class_problems(found: Any) -> Iterator[str]:
    """Problems of the object that an entry point names, before it is instantiated."""
    if not inspect.isclass(found):
        yield f"expected a class, found {type(found).__name__} {found!r}"
        return
    configuration = getattr(found, "Configuration", None)
    is_struct = inspect.isclass(configuration) and issubclass(configuration, msgspec.Struct)
    if configuration is not None and not is_struct:
        yield f"Configuration: expected a msgspec.Struct class, found {configuration!r}"


def plugin_problems(plugin: Any, expected_name: str) -> Iterator[str]:
    name = getattr(plugin, "name", None)
    if name != expected_name:
        yield f"name: expected {expected_name!r} as in the entry point, found {name!r}"
    yield from _order_problems(plugin)
    yield from _rule_problems(plugin)
    yield from _hook_problems(plugin)


def _order_problems(plugin: Any) -> Iterator[str]:
    for attribute in ("before", "after"):
        value = getattr(plugin, attribute, ())
        if isinstance(value, str) or not isinstance(value, (tuple, list, frozenset, set)):
            yield f"{attribute}: expected a tuple of plugin names, found {value!r}"
        elif not all(isinstance(item, str) for item in value):
            yield f"{attribute}: expected names, found {value!r}"


def _rule_problems(plugin: Any) -> Iterator[str]:
    rules = getattr(plugin, "rules", ())
    if not isinstance(rules, (tuple, list)) or not all(isinstance(rule, Rule) for rule in rules):
        yield f"rules: expected a tuple of Rule, found {rules!r}"


def _hook_problems(plugin: Any) -> Iterator[str]:
    count, hooks = 0, ", ".join(EXTENSION_POINTS)
    known = _DECLARATIONS | _asked_by_bases(type(plugin))
    for attribute in sorted(vars(type(plugin)).keys() | _inherited(type(plugin))):
        if attribute.startswith("_") or attribute in known:
            continue
        value = getattr(plugin, attribute, None)
        if attribute in EXTENSION_POINTS:
            count += 1
            yield from _signature_problems(attribute, value)
        elif callable(value) and not inspect.isclass(value):
            yield f"hook {attribute}: expected one of {hooks}; other methods begin with an underscore"
    if count == 0:
        yield f"expected at least one hook of {hooks}, found none"


def _signature_problems(hook: str, method: Any) -> Iterator[str]:
    expected = tuple(inspect.signature(getattr(EXTENSION_POINTS[hook], hook)).parameters)[1:]
    if not callable(method):
        yield f"hook {hook}: expected a method, found {method!r}"
        return
    if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
        yield f"hook {hook}: expected a plain function, found an async one; announce what it reads with uses_facts"
        return
    parameters = inspect.signature(method).parameters.values()
    actual = tuple(parameter.name for parameter in parameters)
    if actual != expected:
        yield f"hook {hook}: expected ({', '.join(expected)}), found ({', '.join(actual)})"
    elif any(parameter.kind is not parameter.POSITIONAL_OR_KEYWORD for parameter in parameters):
        yield f"hook {hook}: expected positional parameters ({', '.join(expected)})"


def _inherited(plugin: type) -> set[str]:
    return {name for base in plugin.__mro__[1:-1] for name in vars(base) if not getattr(base, "_is_protocol", False)}


def _asked_by_bases(plugin: type) -> set[str]:
    """Methods that a base class of the contract asks for, such as GangScheduler, and that are no hooks."""
    bases = (base for base in plugin.__mro__ if base.__module__.startswith(f"{_CONTRACT}."))
    return {name for base in bases for name in getattr(base, "__abstractmethods__", ())}
