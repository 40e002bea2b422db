# SPDX-License-Identifier: Apache-2.0
"""The pages about explain and doctor have every reason and every check, and no other."""

import re

from tests.repository import ROOT
from trainwright.controller.trainer.why.catalogue import CATALOGUE
from trainwright.controller.trainer.why.site.examination import CHECKS

PAGE = ROOT / "docs" / "users" / "causes.md"
DOCTOR = ROOT / "docs" / "admins" / "doctor.md"


def test_the_page_lists_the_reasons_of_the_catalogue() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(CATALOGUE), f"only in one of them: {sorted(set(listed) ^ CATALOGUE.keys())}"


def test_the_page_lists_the_checks_of_doctor() -> None:
    _, _, table = DOCTOR.read_text(encoding="utf-8").partition("| check | what it finds |\n| --- | --- |\n")
    rows = re.findall(r"^\| (.+?) \|", table, re.MULTILINE)
    listed = [title for row in rows for title in row.split("; ")]
    assert sorted(listed) == sorted(CHECKS), f"only in one of them: {sorted(set(listed) ^ CHECKS.keys())}"
