# SPDX-License-Identifier: Apache-2.0
"""docs/users/causes.md has every reason that the checks give, and no other."""

import re

from tests.repository import ROOT
from trainwright.controller.trainer.why.catalogue import CATALOGUE

PAGE = ROOT / "docs" / "users" / "causes.md"


def test_the_page_lists_the_reasons_of_the_catalogue() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(CATALOGUE)
