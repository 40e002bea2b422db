# SPDX-License-Identifier: Apache-2.0
"""The plugins of a process: selected by the Configuration, loaded, verified and ordered, once at start-up.

All problems are collected, so that one start shows every one of them: each text says what was expected and what was
found.
"""

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from typing import Any, cast

import msgspec

from trainwright.api.base import Resource
from trainwright.api.config.v1alpha1 import Plugins
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.messages import one_line
from trainwright.api.rights import merged
from trainwright.plugins.contract import GeneratedSecret, Installation, Plugin, Rule, Watch
from trainwright.plugins.contract.errors import PipelineError, RegistryError
from trainwright.plugins.contract.points import EXTENSION_POINTS
from trainwright.plugins.registry.calling import Loaded, arguments_of, called, place_of, spoken_aside
from trainwright.plugins.registry.discovery import OURSELVES, PluginCandidate, built_in, installed

SINGLE = ("status",)
"""Hooks that at most one plugin may have."""
GIVEN = "given"
"""Stands for the distribution of a plugin that is passed as an object."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which plugins run, and their settings."""

    enabled: frozenset[str] | None = None
    """Plugins to run although they are off by default."""
    disabled: frozenset[str] = frozenset()
    """Plugins that do not run; they are not imported either."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings by plugin name: plain data as in the Configuration, or an instance of the plugin's settings class."""
    only: frozenset[str] | None = None
    """Load these plugins only, for tests; None loads all that are installed."""

    @classmethod
    def of(cls, plugins: Plugins | None) -> "Selection":
        """The selection of the Configuration's section `plugins`."""
        if plugins is None:
            return cls()
        return cls(
            enabled=frozenset(plugins.enabled or ()),
            disabled=frozenset(plugins.disabled or ()),
            settings=plugins.settings or {},
        )


class Registry:
    """The plugins of this process, in order. It never changes."""

    def __init__(self, plugins: Sequence[Loaded]) -> None:
        self._plugins = tuple(plugins)
        self._watches = tuple(dict.fromkeys(watch for entry in self._plugins for watch in entry.watches))
        seen = (ConfigMap.RESOURCE, *(watch.resource for watch in self._watches if not watch.name))
        self.buildable: frozenset[Resource] = frozenset(seen)
        """The kinds that plugins can build, beside Secrets: those that one of them watches, and ConfigMaps, which the
        manager watches."""
        self._by_hook = {hook: tuple(p for p in self._plugins if hook in p.hooks) for hook in EXTENSION_POINTS}

    @classmethod
    def load(
        cls,
        selection: Selection | None = None,
        candidates: Iterable[PluginCandidate] | None = None,
        *,
        installation: Installation | None = None,
    ) -> "Registry":
        """Load, verify and order the plugins. By default these are the built-in ones and those of entry points.

        `installation` is for plugins that use it; without one they get that of an installation as shipped.

        Raises RegistryError with every problem that was found.
        """
        wanted = selection or Selection()
        known = list(candidates) if candidates is not None else [*built_in(), *installed()]
        problems = [*_unknown(wanted, known), *_twice(known)]
        loaded = []
        for candidate in known:
            if candidate.name in wanted.disabled or (wanted.only is not None and candidate.name not in wanted.only):
                continue
            plugin, found = _instance(candidate, wanted, installation or Installation())
            if found:
                problems.append(f"{candidate}: {'; '.join(found)}{_advice(candidate)}")
            if plugin is not None and not found:
                loaded.append(Loaded(plugin, candidate))
        return cls._verified(loaded, problems, known)

    @classmethod
    def of(cls, *plugins: Plugin) -> "Registry":
        """A registry of instances, for tests; verified and ordered like any other. Raises RegistryError."""
        given = [PluginCandidate(plugin.name, type(plugin).__qualname__, GIVEN, "0") for plugin in plugins]
        problems, loaded = _twice(given), []
        for plugin, candidate in zip(plugins, given, strict=True):
            found = [f"{candidate}: {text}" for text in plugin_problems(plugin, candidate.name)]
            problems += found
            loaded += [Loaded(plugin, candidate)] if not found else []
        return cls._verified(loaded, problems, [*given, *built_in(), *installed()])

    @classmethod
    def _verified(
        cls, loaded: Sequence[Loaded], problems: Sequence[str], known: Sequence[PluginCandidate]
    ) -> "Registry":
        found = [*problems, *_singles(loaded)]
        names = {candidate.name for candidate in known}
        watching = []
        for entry in loaded:
            wrong = list(_strangers(entry, names))
            if "watches" in entry.hooks:
                try:
                    entry = replace(entry, watches=tuple(called(entry.plugin, entry.name, "watches")))  # noqa: PLW2901
                except PipelineError as error:
                    wrong.append(f"hook {error.message}")
            if wrong:
                found.append(f"{entry.candidate}: {'; '.join(wrong)}{_advice(entry.candidate)}")
            watching.append(entry)
        if found:
            raise RegistryError(found)
        return cls(_in_order(watching))

    def __iter__(self) -> Iterator[Loaded]:
        return iter(self._plugins)

    def __len__(self) -> int:
        return len(self._plugins)

    def having(self, hook: str) -> tuple[Loaded, ...]:
        return self._by_hook[hook]

    def watches(self) -> tuple[Watch, ...]:
        """All declared watches, each once, in the order of the plugins."""
        return self._watches

    def rules(self) -> tuple[Rule, ...]:
        """All declared rights, merged and sorted."""
        return merged(rule for entry in self._plugins for rule in entry.rules)

    def secrets(self) -> tuple[GeneratedSecret, ...]:
        """The Secrets that the plugins make for jobs, sorted."""
        return tuple(sorted({one for entry in self._plugins for one in entry.secrets}))


def _unknown(wanted: Selection, known: Sequence[PluginCandidate]) -> list[str]:
    names = {candidate.name for candidate in known}
    asked = {"enabled": wanted.enabled or frozenset(), "disabled": wanted.disabled, "settings": wanted.settings.keys()}
    return [
        f"plugin {name}: {where} in the Configuration, but not installed; installed are {', '.join(sorted(names))}"
        for where, some in asked.items()
        for name in sorted(some - names)
    ]


def _twice(known: Sequence[PluginCandidate]) -> list[str]:
    first: dict[str, PluginCandidate] = {}
    problems = []
    for candidate in known:
        other = first.setdefault(candidate.name, candidate)
        if other is not candidate:
            problems.append(
                f"{candidate}: its name is taken by a plugin of distribution {other.distribution}; names must be unique"
            )
    return problems


def _singles(loaded: Sequence[Loaded]) -> list[str]:
    problems = []
    for hook in SINGLE:
        having = [entry.name for entry in loaded if hook in entry.hooks]
        if len(having) > 1:
            names = ", ".join(sorted(having))
            problems.append(f"hook {hook}: expected at most one plugin, found {names}; disable all but one of them")
    return problems


def _strangers(entry: Loaded, names: AbstractSet[str]) -> Iterator[str]:
    """Names of no plugin in `before` and `after`. A disabled plugin is one; an order after a typo would be ignored."""
    for attribute, named in (("before", entry.before), ("after", entry.after)):
        for name in sorted(named - names):
            yield f"{attribute}: no plugin is called {name!r}; installed are {', '.join(sorted(names))}"


def _in_order(loaded: Sequence[Loaded]) -> list[Loaded]:
    by_name = {entry.name: entry for entry in loaded}
    try:
        names = ordered(
            {name: entry.before for name, entry in by_name.items()},
            {name: entry.after for name, entry in by_name.items()},
        )
    except OrderingCycle as cycle:
        members = [str(by_name[name].candidate) for name in sorted(set(cycle.members))]
        raise RegistryError([f"{'; '.join(members)}: before and after form a circle: {cycle}"]) from cycle
    return [by_name[name] for name in names]


def _instance(
    candidate: PluginCandidate, wanted: Selection, installation: Installation
) -> tuple[Plugin | None, list[str]]:
    """The plugin, or its problems; neither for a plugin that is off by default and not enabled."""
    try:
        with spoken_aside():
            found = candidate.load()
    except (Exception, SystemExit) as error:  # a module may end the process, as a script does
        return None, [f"cannot be imported from {candidate.target}: {_said(error, candidate)}"]
    problems = list(class_problems(found))
    if problems:
        return None, problems
    if getattr(found, "off_by_default", False) and candidate.name not in (wanted.enabled or ()):
        return None, []
    try:
        with spoken_aside():
            plugin = _made(found, wanted.settings.get(candidate.name), installation)
    except (Exception, SystemExit) as error:
        return None, [f"cannot be created: {_said(error, candidate)}"]
    return plugin, list(plugin_problems(plugin, candidate.name))


def _said(error: BaseException, candidate: PluginCandidate) -> str:
    where = place_of(error, candidate.target.partition(":")[0])
    return f"{type(error).__name__}: {one_line(str(error))}{where}"


def _advice(candidate: PluginCandidate) -> str:
    if candidate.distribution in (OURSELVES, GIVEN):
        return ""
    return (
        f"; correct the plugin, or uninstall {candidate.distribution}, "
        f"or list {candidate.name} under plugins.disabled in the manager's Configuration"
    )


def _made(found: Any, settings: Any, installation: Installation) -> Plugin:
    model = getattr(found, "Configuration", None)
    passed = {"installation": installation} if getattr(found, "uses_installation", False) else {}
    if model is None:
        if settings is not None:
            raise TypeError("the Configuration has settings for it, but the plugin takes none")
        return cast("Plugin", found(**passed))
    given = settings if isinstance(settings, model) else msgspec.convert(settings or {}, model)
    return cast("Plugin", found(given, **passed))


class OrderingCycle(Exception):  # noqa: N818 - it names what was found
    """Plugins that are to run before each other. `members` is one such circle, with its first name again at the end."""

    def __init__(self, members: tuple[str, ...]) -> None:
        super().__init__(" before ".join(members))
        self.members = members


def ordered(before: Mapping[str, AbstractSet[str]], after: Mapping[str, AbstractSet[str]]) -> tuple[str, ...]:
    """The names in an order that every `before` and `after` agrees with.

    Both mappings have all names as keys; other names in their values are ignored. Raises OrderingCycle.
    """
    sorter = TopologicalSorter({name: sorted(after[name] & before.keys()) for name in sorted(before)})
    for name, followers in sorted(before.items()):
        for follower in sorted(followers & before.keys()):
            sorter.add(follower, name)
    try:
        sorter.prepare()
    except CycleError as error:
        members = error.args[1][:-1]
        start = members.index(min(members))
        raise OrderingCycle((*members[start:], *members[:start], members[start])) from None
    ready: list[str] = []
    result: list[str] = []
    while sorter.is_active():
        ready += sorter.get_ready()
        result.append(min(ready))
        ready.remove(result[-1])
        sorter.done(result[-1])
    return tuple(result)


_CONTRACT = "trainwright.plugins.contract"
_DECLARATIONS = frozenset(
    {"name", "before", "after", "rules", "secrets", "Configuration", "off_by_default", "uses_installation"}
)


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
    try:
        yield from _order_problems(plugin)
        yield from _rule_problems(plugin)
        yield from _hook_problems(plugin)
    except Exception as error:  # an attribute may be a property
        where = place_of(error, type(plugin).__module__)
        yield f"an attribute cannot be read: {type(error).__name__}: {one_line(str(error))}{where}"


def _order_problems(plugin: Any) -> Iterator[str]:
    for attribute in ("before", "after"):
        value = getattr(plugin, attribute, ())
        if isinstance(value, str) or not isinstance(value, (tuple, list, frozenset, set)):
            yield f"{attribute}: expected a tuple of plugin names, found {value!r}"
        elif not all(isinstance(item, str) for item in value):
            yield f"{attribute}: expected names, found {value!r}"


def _rule_problems(plugin: Any) -> Iterator[str]:
    for attribute, kind in (("rules", Rule), ("secrets", GeneratedSecret)):
        value = getattr(plugin, attribute, ())
        if not isinstance(value, (tuple, list)) or not all(isinstance(one, kind) for one in value):
            yield f"{attribute}: expected a tuple of {kind.__name__}, found {value!r}"


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
    offered = arguments_of(hook)
    if not callable(method) or inspect.isclass(method):
        yield f"hook {hook}: expected a method, found {method!r}"
        return
    if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
        yield f"hook {hook}: expected a plain function, found an async one; announce what it reads with uses_facts"
        return
    parameters = inspect.signature(method).parameters.values()
    actual = tuple(parameter.name for parameter in parameters)
    if not {*actual} <= {*offered}:
        yield f"hook {hook}: expected some of ({', '.join(offered)}), found ({', '.join(actual)})"
    elif any(parameter.kind is not parameter.POSITIONAL_OR_KEYWORD for parameter in parameters):
        yield f"hook {hook}: expected positional parameters, some of ({', '.join(offered)})"


def _inherited(plugin: type) -> set[str]:
    return {name for base in plugin.__mro__[1:-1] for name in vars(base) if not getattr(base, "_is_protocol", False)}


def _asked_by_bases(plugin: type) -> set[str]:
    """Methods that a base class of the contract asks for, such as GangScheduler, and that are no hooks."""
    bases = (base for base in plugin.__mro__ if base.__module__.startswith(f"{_CONTRACT}."))
    return {name for base in bases for name in getattr(base, "__abstractmethods__", ())}
