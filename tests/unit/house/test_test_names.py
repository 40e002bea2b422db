# SPDX-License-Identifier: Apache-2.0
"""Names of tests find them: no two files share one, and functions say what they show, not the number of a scenario."""

import re
from collections import defaultdict

from tests.repository import ROOT, git

NUMBERED = re.compile(r"^\s*(?:async )?def (test_\d\w*)\(", re.MULTILINE)


def files_of_tests() -> list[str]:
    listed = git("ls-files", "--cached", "--others", "--exclude-standard", "tests").splitlines()
    return [name for name in listed if re.search(r"/test_\w+\.py$", name) and (ROOT / name).is_file()]


def test_no_two_files_share_a_name() -> None:
    places = defaultdict(list)
    for name in files_of_tests():
        places[name.rpartition("/")[2]].append(name)
    assert len(places) > 400
    assert [found for found in places.values() if len(found) > 1] == []


def test_no_function_is_named_after_a_number() -> None:
    found = {name: NUMBERED.findall((ROOT / name).read_text()) for name in files_of_tests()}
    assert {name: functions for name, functions in found.items() if functions} == {}
    assert NUMBERED.findall("async def test_12_jobset() -> None:") == ["test_12_jobset"]
