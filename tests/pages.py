# SPDX-License-Identifier: Apache-2.0
"""The pages that people read, and the fenced blocks in them.

How a page says what a block is:

- a block of shell is run, page by page from top to bottom, by tests/e2e/test_e2e_pages.py;
- `<!-- not run: reason -->` in the line before it says why it is not;
- `<!-- fails -->` there says that the command must fail;
- a block of text right after one of shell is what that prints: each line must be found, in order; `…` is any text;
- a block with `title="job.yaml"` is a file that the reader writes;
- `<!-- wrong: reason -->` before a manifest says that it is not meant to be valid.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.repository import ROOT, git

_FENCE = re.compile(
    r"(?:^[ ]*<!-- (?P<mark>[^\n]*?) -->\n)?"
    r"^(?P<indent>[ ]*)```(?P<language>\w*)(?: title=\"(?P<title>[^\"\n]+)\")?[ ]*\n"
    r"(?P<text>.*?)"
    r"^(?P=indent)```[ ]*$",
    re.MULTILINE | re.DOTALL,
)
_SHELL = frozenset({"sh", "bash", "console", "shell"})


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block."""

    page: Path
    line: int
    """Of its first line of text, counted from 1."""
    language: str
    text: str
    title: str
    """Name of the file that it is; empty: it is none."""
    mark: str
    """The comment before it, without its brackets."""

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def is_shell(self) -> bool:
        return self.language in _SHELL

    @property
    def reason(self) -> str:
        """Why it is not run, or not valid; empty: it is."""
        kind, _, why = self.mark.partition(":")
        return why.strip() if kind in {"not run", "wrong"} else ""


def pages() -> list[Path]:
    """Every page of the repository that is meant for people."""
    listed = git("ls-files", "--cached", "--others", "--exclude-standard", "*.md").splitlines()
    # Notes beside recorded data describe files, and are no guides.
    return sorted(ROOT / name for name in listed if not name.startswith("tests/") and (ROOT / name).is_file())


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page, from top to bottom."""
    return list(_blocks(page, page.read_text(encoding="utf-8")))


def _blocks(page: Path, text: str) -> Iterator[Block]:
    for found in _FENCE.finditer(text):
        indent = found["indent"]
        lines = [line.removeprefix(indent) for line in found["text"].splitlines(keepends=True)]
        yield Block(
            page=page,
            line=text.count("\n", 0, found.start("text")) + 1,
            language=found["language"],
            text="".join(lines),
            title=found["title"] or "",
            mark=found["mark"] or "",
        )
