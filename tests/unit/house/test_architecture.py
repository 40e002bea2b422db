# SPDX-License-Identifier: Apache-2.0
"""The page about a TrainJob's way leads to files that are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_every_place_named_is_there() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = [row for row in page.splitlines() if re.match(r"\| \d\. ", row)]
    assert len(rows) == 7
    for row in rows:
        folder = ROOT
        for place in re.findall(r"`([^`]+)`", row.rsplit("|", 2)[1]):
            # A bare file name lies beside the one before it.
            path = ROOT / place if "/" in place else folder / place
            assert list(path.parent.glob(path.name)) or path.is_dir(), place
            folder = path.parent
