# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a job, in one sentence: the cases of tests/explanations, each a test."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lined import check, load
from tests.repository import ROOT
from tests.unit.trainer.explain.world import NOW, Document, World, at
from trainwright.controller.trainer.why import GivenObjects, explain
from trainwright.controller.trainer.why.catalogue import CATALOGUE
from trainwright.plugins.contract.picture import Cause, Link, Picture

FOLDER = ROOT / "tests" / "explanations"
_AGO = re.compile(r"(\d+) s ago|in (\d+) s")


def cases() -> Iterator[Any]:
    for path in sorted(FOLDER.glob("*.yaml")):
        found = load(path)
        check(path, found, FOLDER / "schema.json")
        for case in found:
            yield pytest.param(path, case, id=f"{path.stem}: {case['name']}")


@pytest.mark.parametrize(("path", "case"), [*cases()])
def test_explanation(path: Path, case: Any) -> None:
    found = made(case).explained()
    cause = found.cause
    told = {
        "says": f"{cause.reason}: {cause.message}",
        "also": [f"{one.reason}: {one.message}" for one in found.others],
        "exit": found.exit_code,
        "about": f"{cause.about.kind}/{cause.about.name}" if cause.about is not None else "",
        "unread": [str(one) for one in found.unread],
    }
    wanted = {key: case.get(key, type(value)()) for key, value in told.items()}
    assert told == wanted, f"{path.name}:{case.line}"


def test_a_plugin_that_fails_hides_nothing() -> None:
    class Broken:
        name = "Broken"

        def explain(self, picture: Picture) -> Iterable[Cause]:  # noqa: ARG002 - the contract's
            raise KeyError("x")

    class Acme:
        name = "Acme"

        def explain(self, picture: Picture) -> Iterable[Cause]:  # noqa: ARG002 - the contract's
            yield Cause(reason="AcmeHeld", message="Acme holds the job", link=Link.SCHEDULING)

    world = World()
    picture = GivenObjects(world.objects, unserved=world.unserved).picture(world.job, NOW)
    found = explain(picture, (Broken(), Acme()))
    assert (found.cause.message, found.exit_code) == ("Acme holds the job", 1)
    [unread] = found.unread
    assert unread.startswith("what plugin Broken knows: explain failed: KeyError: 'x' (")


def test_every_number_stands_for_one_reason() -> None:
    numbers = sorted(entry.number for entry in CATALOGUE.values() if entry.number)
    assert numbers == [number for number in range(1, 71) if number != 43]  # 43 is 42 with another scheduler


def made(case: Any) -> World:
    """The world of a case."""
    world = World(**case.get("world", {}))
    names = {_name(one): one for one in world.objects}
    for what in case.get("drop", ()):
        world.objects = [one for one in world.objects if what not in (one["kind"], _name(one))]
    for what, patch in case.get("change", {}).items():
        for one in world.objects:
            if one["kind"] == what or _name(one) in what.split(", "):
                _patch(one, _whole(patch))
    for given in case.get("add", ()):
        added, document = dict(given), {}
        if "like" in added:
            name = added.pop("like")
            document = next(one for one in World(**case.get("world", {})).objects if _name(one) == name)
        _patch(document, _whole(added))
        world.objects.append(document)
        names[_name(document)] = document
    for given in case.get("events", ()):
        event = dict(given)
        about, kind = event.pop("about"), event.pop("type", "Warning")
        subject = names.get(about) or dict(zip(("kind", "metadata"), _reference(about), strict=True))
        made_event = world.event(subject, event.pop("reason"), event.pop("message"), ago=event.pop("ago"), kind=kind)
        _patch(made_event, _whole(event))
    world.job = next(one for one in world.objects if one["kind"] == "TrainJob")
    world.logs = case.get("logs", {})
    world.unreadable = tuple(case.get("unreadable", ()))
    world.unserved = tuple(case.get("unserved", world.unserved))
    return world


def _name(one: Document) -> str:
    return f"{one['kind']}/{one['metadata']['name']}"


def _reference(about: str) -> tuple[str, Document]:
    kind, name = about.split("/")
    return kind, {"name": name, "uid": about}


def _patch(target: Document, patch: Document) -> None:
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict) and value and isinstance(target.get(key), dict):
            _patch(target[key], value)
        else:
            target[key] = value


def _whole(value: Any) -> Any:
    """A value with its times, and what the status of a condition or a container leaves out."""
    if isinstance(value, list):
        return [_whole(one) for one in value]
    if isinstance(value, str) and (time := _AGO.fullmatch(value)):
        return at(float(time[1])) if time[1] else at(-float(time[2]))
    if not isinstance(value, dict):
        return value
    found = {key: _whole(one) for key, one in value.items()}
    if isinstance(found.get("conditions"), list):
        found["conditions"] = [_condition(one) for one in found["conditions"]]
    for name in ("containerStatuses", "initContainerStatuses"):
        if isinstance(found.get(name), list):
            found[name] = [{"name": "node", "restartCount": 0, **one} for one in found[name]]
    return found


def _condition(given: Document) -> Document:
    told = {"status": "True", "reason": "", "message": "", **given}
    if "lastTransitionTime" not in told:
        told["lastTransitionTime"] = at(told.pop("ago", 120))
    return told
