# SPDX-License-Identifier: Apache-2.0
"""What hack/size.py counts."""

import pytest

from hack.size import ROOMS, measured, room_of, rooms_of, twice
from tests.repository import ROOT

SOURCE = """
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.errors import NotFound
from trainwright.controller.runtime.testing.waiting import eventually
import trainwright.plugins.contract.points

class Open:
    class Inner: ...

class _Private: ...

def late():
    import json
    class Local: ...
    async def later():
        from json import loads
"""


def test_what_is_counted_of_a_file() -> None:
    file = measured("controller/trainer/a.py", SOURCE)
    assert file.lines == SOURCE.count("\n")
    assert file.sliver
    assert file.classes == ("Open", "_Private")
    assert file.lazy == 2
    assert file.past == ("trainwright.controller.runtime.errors", "trainwright.plugins.contract.points")


def test_within_its_package_a_module_is_not_past_the_facade() -> None:
    assert measured("controller/runtime/a.py", SOURCE).past == ("trainwright.plugins.contract.points",)


@pytest.mark.parametrize(
    ("text", "lines", "generated"),
    [
        ("", 0, False),
        ("a = 1", 1, False),
        ("a = 1\nb = 2\n", 2, False),
        ("# SPDX\n# Generated from x.\nclass A: ...\n", 3, True),
    ],
)
def test_lines(text: str, lines: int, generated: bool) -> None:
    file = measured("api/a.py", text)
    assert (file.lines, file.generated, file.classes) == (lines, generated, ())


def test_a_package_is_no_sliver() -> None:
    assert not measured("api/__init__.py", "").sliver


def test_a_file_is_in_one_room() -> None:
    assert [room_of(path) for path in ("api/a.py", "controller/local/x/y.py", "tests/a.py", "setup.py")] == [
        "api",
        "controller/local",
        "tests",
        "elsewhere",
    ]
    rooms = rooms_of([measured("api/a.py", "x = 1\n")])
    assert list(rooms) == list(ROOMS)
    assert len(rooms["api"].files) == 1
    for room in ROOMS:
        assert (ROOT / room).is_dir()


def test_class_names_of_several_files() -> None:
    files = [
        measured("api/a.py", "class A: ...\nclass _B: ...\n"),
        measured("plugins/a.py", "class A: ...\nclass _B: ...\n"),
        measured("tests/a.py", "class C: ...\n"),
        measured("tests/b.py", "class C: ...\n"),
    ]
    assert twice(files) == {"A": ["api/a.py", "plugins/a.py"]}
