# SPDX-License-Identifier: Apache-2.0
"""docs/decisions.md: each decision has a date and a topic, and the index at the top is that of the topics."""

import re

from tests.repository import ROOT

TEXT = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8")
BEFORE, *SECTIONS = re.split(r"(?m)^## ", TEXT)
DECISION = re.compile("(?m)^\\*\\*(\\d{4}-\\d\\d-\\d\\d) \u2013 ")
UNSORTED = "New"


def test_the_index_counts_the_decisions_of_each_topic() -> None:
    listed = re.findall(r"(?m)^\| \[([^\]]+)\]\(#[\w-]+\) \| (.+) \|$", BEFORE)
    found = [(section.partition("\n")[0], str(len(DECISION.findall(section)))) for section in SECTIONS]
    assert found[-1][0] == listed[-1][0] == UNSORTED
    assert listed[:-1] == found[:-1]


def test_each_paragraph_of_a_topic_begins_with_a_date() -> None:
    for section in SECTIONS[:-1]:
        title, _, text = section.partition("\n")
        for paragraph in re.split(r"\n\n+", text.strip()):
            assert DECISION.match(paragraph) or not paragraph.startswith("**20"), f"{title}: {paragraph[:60]}"
        assert DECISION.match(text.strip()), title


def test_what_is_superseded_says_by_what() -> None:
    ends = re.findall(r"Superseded( in part)?(?:: | by )(.*)", TEXT)
    assert len(ends) == TEXT.count("Superseded") - BEFORE.count("Superseded")
    assert all(reason for _, reason in ends)
