# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: ARG002 - hooks have the parameters of the contract
"""Which plugins run, in which order, and what keeps a process from starting."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import msgspec
import pytest

from tests.cases import cases
from trainwright.api.base import Resource
from trainwright.api.kubernetes.core.v1 import Secret
from trainwright.api.trainer.v1alpha1 import TrainJob, TrainJobStatus
from trainwright.plugins.contract import (
    ClusterFacts,
    Component,
    Enqueue,
    Finding,
    Info,
    Installation,
    Refusal,
    Rule,
    Warned,
    Watch,
)
from trainwright.plugins.contract.errors import RegistryError
from trainwright.plugins.registry import PluginCandidate, Registry, Selection, built_in
from trainwright.plugins.registry.calling import called
from trainwright.plugins.registry.registry import OrderingCycle, ordered
from trainwright.plugins.testing import train_job

CASES = cases(__file__)

THING = Resource(group="example.com", version="v1", kind="Thing", plural="things", namespaced=True)
OTHER = Resource(group="example.com", version="v1", kind="Other", plural="others", namespaced=True)
NAMED = Watch(Secret.RESOURCE, Enqueue.UNFINISHED, model=Secret, namespace="system", name="ca")


class Plain:
    """A plugin with one hook."""

    name = "Plain"

    def build(self, info: Info, job: TrainJob) -> Iterable[Component]:
        return ()


@dataclass
class Ordered(Plain):
    name: str = "Ordered"
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class Reaching(Plain):
    """A plugin whose pods call the manager."""

    name = "Reaching"
    uses_installation = True

    def __init__(self, *, installation: Installation) -> None:
        self._at = installation


class Unreaching(Plain):
    """It says that it uses the installation, and does not take it."""

    name = "Unreaching"
    uses_installation = True


class Impostor(Plain):
    name = "Torch"


class Statusful(Plain):
    name = "Statusful"

    def status(self, job: TrainJob, facts: ClusterFacts) -> TrainJobStatus | None:
        return None


class OtherStatusful(Statusful):
    name = "OtherStatusful"


class WrongSignature:
    name = "WrongSignature"

    def enforce_ml_policy(self, info: Info, runtime: object) -> None: ...


class UnknownHook(Plain):
    name = "UnknownHook"

    def enforce_policy(self, info: Info, job: TrainJob) -> None: ...


class Asynchronous:
    name = "Asynchronous"

    async def build(self, info: Info, job: TrainJob) -> None: ...


class Hookless:
    name = "Hookless"


class Circular(Plain):
    name = "Circular"
    before = ("JobSet",)
    after = ("JobSet",)


class BadRules(Plain):
    name = "BadRules"
    rules = ({"verbs": ["*"]},)


class TextOrder(Plain):
    name = "TextOrder"
    after = "JobSet"


class Typo(Plain):
    name = "Typo"
    after = ("PlainML", "PlianML")


class WatchesText(Plain):
    name = "WatchesText"

    def watches(self) -> Any:
        return ("configmaps",)


class FailsToWatch(Plain):
    name = "FailsToWatch"

    def watches(self) -> Any:
        raise KeyError("gone")


class Misnamed(Plain):
    name = "SomethingElse"


class Settings(msgspec.Struct, forbid_unknown_fields=True):
    limit: int = 3


class Configured(Plain):
    name = "Configured"
    Configuration = Settings

    def __init__(self, configuration: Settings) -> None:
        self._configuration = configuration


class Optional(Plain):
    name = "Optional"
    off_by_default = True


ENABLED = {"enabled": frozenset({"Optional"})}


class Unreadable(Plain):
    name = "Unreadable"

    @property
    def rules(self) -> Any:
        raise KeyError("gone")


class BuildsType(Plain):
    name = "BuildsType"
    build: Any = dict


class Unmakeable(Plain):
    name = "Unmakeable"

    def __init__(self) -> None:
        raise RuntimeError("no licence")


NO_PLUGIN = 42


@pytest.fixture(autouse=True)
def shop() -> Iterator[None]:
    """A module that candidates are loaded from, whatever the name under which this one was imported."""
    module = ModuleType("plugin_shop")
    module.__dict__.update(globals())
    sys.modules["plugin_shop"] = module
    yield
    del sys.modules["plugin_shop"]


def candidate(name: str, target: str = "", distribution: str = "acme-trainer") -> PluginCandidate:
    return PluginCandidate(name, f"plugin_shop:{target or name}", distribution, "1.2")


def load(*candidates: PluginCandidate, **selection: Any) -> Registry:
    return Registry.load(Selection(**selection), [*built_in(), *candidates])


WHO = "plugin {name} (distribution acme-trainer 1.2): "
BROKEN = {
    "wrong signature": (
        [candidate("WrongSignature")],
        [WHO + "hook enforce_ml_policy: expected some of (info, job), found (info, runtime)"],
    ),
    "unknown hook": ([candidate("UnknownHook")], [WHO + "hook enforce_policy: expected one of watches, "]),
    "async hook": ([candidate("Asynchronous")], [WHO + "hook build: expected a plain function, found an async one"]),
    "no hook": ([candidate("Hookless")], [WHO + "expected at least one hook of ", "found none"]),
    "installation not taken": ([candidate("Unreaching")], [WHO + "cannot be created: TypeError: "]),
    "ordering cycle": (
        [candidate("Circular")],
        [
            "plugin Circular (distribution acme-trainer 1.2); plugin JobSet (distribution trainwright",
            "form a circle: Circular before JobSet",
        ],
    ),
    "duplicate name": (
        [candidate("Torch", "Impostor")],
        ["plugin Torch (distribution acme-trainer 1.2): ", "its name is taken by a plugin of distribution trainwright"],
    ),
    "import error": (
        [PluginCandidate("Ghost", "no_such_module:Ghost", "acme-trainer", "1.2")],
        ["plugin Ghost (distribution acme-trainer 1.2): cannot be imported", "ModuleNotFoundError", "no_such_module"],
    ),
    "no such class": ([candidate("Absent")], [WHO + "cannot be imported", "Absent"]),
    "no plugin": ([candidate("Number", "NO_PLUGIN")], [WHO + "expected a class, found int 42"]),
    "two status plugins": (
        [candidate("Statusful")],
        ["hook status: expected at most one plugin, found JobSet, Statusful; disable all but one of them"],
    ),
    "bad rules": ([candidate("BadRules")], [WHO + "rules: expected a tuple of Rule, found "]),
    "order as text": ([candidate("TextOrder")], [WHO + "after: expected a tuple of plugin names, found 'JobSet'"]),
    "order by a name of no plugin": (
        [candidate("Typo")],
        [WHO + "after: no plugin is called 'PlianML'; installed are CoScheduling, ", ", or list Typo under "],
    ),
    "watches of another type": (
        [candidate("WatchesText")],
        [WHO + "hook watches returned 'configmaps' instead of a Watch (", "test_registry.py, line "],
    ),
    "watches that fail": (
        [candidate("FailsToWatch")],
        [WHO + "hook watches failed: KeyError: 'gone' (", "test_registry.py, line "],
    ),
    "an attribute that fails": (
        [candidate("Unreadable")],
        [WHO + "an attribute cannot be read: KeyError: 'gone' (", "test_registry.py, line "],
    ),
    "a class as a hook": ([candidate("BuildsType")], [WHO + "hook build: expected a method, found <class 'dict'>"]),
    "another name": (
        [candidate("Misnamed")],
        [WHO + "name: expected 'Misnamed' as in the entry point, found 'SomethingElse'"],
    ),
    "cannot be created": ([candidate("Unmakeable")], [WHO + "cannot be created: RuntimeError: no licence"]),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_plugin_stops_the_start_by_name(case: str) -> None:
    candidates, expected = BROKEN[case]

    with pytest.raises(RegistryError) as refused:
        load(*candidates)

    message = str(refused.value)
    name = candidates[0].name
    assert [text for text in expected if text.format(name=name) not in message] == []
    assert len(refused.value.problems) == 1
    assert "\n" not in message


def test_all_that_is_wrong_with_one_plugin_is_one_line_with_what_to_do() -> None:
    class Twisted:
        name = "Another"
        after = "JobSet"

        def build(self, job: object, *more: object) -> None:
            pass

    sys.modules["plugin_shop"].__dict__["Twisted"] = Twisted
    with pytest.raises(RegistryError) as refused:
        load(candidate("Twisted"))
    (problem,) = refused.value.problems
    assert problem.startswith("plugin Twisted (distribution acme-trainer 1.2): name: expected 'Twisted'")
    assert "; after: expected a tuple" in problem
    assert "; hook build: expected some of (info, job), found (job, more)" in problem
    assert problem.endswith(
        "; correct the plugin, or uninstall acme-trainer, or list Twisted under plugins.disabled in the manager's "
        "Configuration"
    )


def test_a_module_that_ends_the_process_or_speaks_in_many_lines_is_one_line_too() -> None:
    class Loud(Plain):
        name = "Loud"

        def __init__(self) -> None:
            raise RuntimeError("one\ntwo")

    def leave(name: str) -> None:
        raise SystemExit(f"bye, {name}")

    shop = sys.modules["plugin_shop"]
    shop.__dict__["Loud"] = Loud
    shop.__dict__["__getattr__"] = leave
    with pytest.raises(RegistryError) as refused:
        load(candidate("Loud"), candidate("Gone"))
    assert ["cannot be created: RuntimeError: one two;" in one for one in refused.value.problems] == [True, False]
    assert "cannot be imported from plugin_shop:Gone: SystemExit: bye, Gone;" in refused.value.problems[1]


def test_a_hook_takes_the_arguments_that_it_needs_by_their_names() -> None:
    class Modest:
        name = "Modest"

        def validate(self, job: TrainJob, info: Info) -> list[Finding]:
            return [Warned(f"{type(job).__name__} and {type(info).__name__}")]

        def prepare_components(self) -> None:
            raise Refusal("prepared")

    plugin = Modest()
    entry = next(one for one in Registry.of(plugin) if one.name == "Modest")
    assert called(plugin, "Modest", "validate", "the info", None, train_job()) == [Warned("TrainJob and str")]
    with pytest.raises(Refusal, match="prepared"):
        entry.hook("prepare_components")("the info", train_job())


def test_one_start_shows_every_problem() -> None:
    with pytest.raises(RegistryError) as refused:
        load(candidate("WrongSignature"), candidate("Hookless"), candidate("UnknownHook"))

    assert len(refused.value.problems) == 3


@pytest.mark.parametrize(("settings", "expected"), CASES["settings_are_typed"])
def test_settings_are_typed(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(RegistryError) as refused:
        load(candidate("Configured"), settings={"Configured": settings})
    assert expected in str(refused.value)


def test_settings_reach_the_plugin() -> None:
    registry = load(candidate("Configured"), settings={"Configured": {"limit": 7}})
    (entry,) = [entry for entry in registry if entry.name == "Configured"]
    assert isinstance(entry.plugin, Configured)
    assert entry.plugin._configuration.limit == 7


def test_settings_for_a_plugin_without_any_are_a_mistake() -> None:
    with pytest.raises(RegistryError, match=r"plugin JobSet .*the plugin takes none"):
        load(settings={"JobSet": {"x": 1}})


@pytest.mark.parametrize("where", ["enabled", "disabled"])
def test_an_unknown_name_in_the_configuration_is_named(where: str) -> None:
    with pytest.raises(RegistryError, match=f"plugin Torsch: {where} in the Configuration, but not installed"):
        load(**{where: frozenset({"Torsch"})})


def test_plugins_are_enabled_and_disabled_by_name() -> None:
    everything = {entry.name for entry in load()}

    assert everything == {
        "CoScheduling",
        "Flux",
        "JAX",
        "JobSet",
        "MPI",
        "PlainML",
        "Torch",
        "Volcano",
        "XGBoost",
    }
    assert {entry.name for entry in load(disabled=frozenset({"Flux"}))} == everything - {"Flux"}
    assert [entry.name for entry in load(only=frozenset({"MPI", "JobSet"}))] == ["JobSet", "MPI"]


def test_a_plugin_that_is_off_by_default_waits_for_the_configuration() -> None:
    names = [{entry.name for entry in load(candidate("Optional"), **chosen)} for chosen in ({}, ENABLED)]
    assert names[1] - names[0] == {"Optional"}
    assert names[0] <= names[1]


def test_a_disabled_plugin_is_not_even_imported() -> None:
    broken = PluginCandidate("Ghost", "no_such_module:Ghost", "acme-trainer", "1.2")
    assert "Ghost" not in {entry.name for entry in load(broken, disabled=frozenset({"Ghost"}))}


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        ([Ordered("B"), Ordered("A"), Ordered("C")], ["A", "B", "C"]),
        ([Ordered("A", after=("C",)), Ordered("B"), Ordered("C")], ["B", "C", "A"]),
        ([Ordered("A"), Ordered("B"), Ordered("C", before=("A",))], ["B", "C", "A"]),
        ([Ordered("A", after=("Torch",)), Ordered("B", before=("Torch",))], ["A", "B"]),
    ],
)
def test_the_order_is_declared_and_then_by_name(plugins: list[Ordered], expected: list[str]) -> None:
    for arrangement in (plugins, plugins[::-1]):
        assert [entry.name for entry in Registry.of(*arrangement)] == expected


def test_a_circle_is_named_in_its_order() -> None:
    with pytest.raises(OrderingCycle) as found:
        ordered({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": set()}, {name: set() for name in "abcd"})
    assert str(found.value) in (
        "a before b before c before a",
        "b before c before a before b",
        "c before a before b before c",
    )


def test_watches_and_rights_are_merged() -> None:
    class One(Plain):
        name = "One"
        rules = (Rule.on(THING, "get"),)

        def watches(self) -> tuple[Watch, ...]:
            return (Watch(THING),)

    class Two(One):
        name = "Two"
        rules = (Rule.on(THING, "list", "update"),)

        def watches(self) -> tuple[Watch, ...]:
            return (Watch(THING, makes=True, deletes=True), Watch(OTHER, metadata_only=True, makes=True), NAMED)

    registry = Registry.of(One(), Two())

    assert registry.watches() == (Watch(THING), Watch(OTHER, metadata_only=True), NAMED)
    assert registry.rules() == (
        Rule("example.com", "others", ("create", "get", "list", "patch", "watch")),
        Rule("example.com", "things", ("create", "delete", "get", "list", "patch", "update", "watch")),
    )


def test_no_plugins_are_fine() -> None:
    registry = Registry.of()
    assert (len(registry), registry.watches(), registry.rules()) == (0, (), ())


def test_a_plugin_gets_the_installation_if_it_uses_it() -> None:
    at = Installation(host="manager.example", port=1)
    only = Selection(only=frozenset({"Reaching"}))
    for given, expected in ((at, at), (None, Installation())):
        (loaded,) = Registry.load(only, [candidate("Reaching")], installation=given)
        found: Any = loaded.plugin
        assert found._at == expected
