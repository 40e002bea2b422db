# SPDX-License-Identifier: Apache-2.0
"""The files of the dashboard's page: they load nothing from elsewhere, and vendored parts are as they were taken."""

import importlib.util
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest

from tests.repository import ROOT

PAGE = ROOT / "controller" / "dashboard" / "page"
OWN = sorted(path for path in PAGE.rglob("*") if path.is_file() and "vendor" not in path.parts)


def vendored() -> ModuleType:
    spec = importlib.util.spec_from_file_location("vendored", ROOT / "hack" / "vendored.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Document(HTMLParser):
    """What a policy of `default-src 'self'` would refuse."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: list[str] = []
        self.files: set[str] = set()
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag
        for name, value in attrs:
            if name == "style" or name.startswith("on"):
                self.refused.append(f"{tag} {name}")
            if tag in {"script", "link"} and name in {"src", "href"}:
                self.files.add(value or "")

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002 - the name of the base class
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside in {"script", "style"} and data.strip():
            self.refused.append(f"inline {self._inside}")


def test_the_document_has_nothing_inline_and_names_files_that_exist() -> None:
    document = Document()
    document.feed((PAGE / "index.html").read_text())
    assert document.refused == []
    assert document.files
    assert [name for name in sorted(document.files) if not (PAGE / name).is_file()] == []
    unused = {path.name for path in PAGE.rglob("*.css")} - {Path(name).name for name in document.files}
    assert unused == set()


@pytest.mark.parametrize("path", [pytest.param(path, id=str(path.relative_to(PAGE))) for path in OWN])
def test_a_file_of_the_page(path: Path) -> None:
    text = path.read_text()
    if path.suffix in {".js", ".css", ".html"}:
        assert "SPDX-License-Identifier: Apache-2.0" in "".join(text.splitlines(keepends=True)[:2])
    assert len(text.splitlines()) <= 400
    # The name of the SVG namespace looks like an address.
    addresses = set(re.findall(r"https?://[^\s\"'`)]+|//[a-z0-9-]+\.[a-z]+/", text)) - {"http://www.w3.org/2000/svg"}
    assert addresses == set()
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "srcdoc"):
        assert way not in text, "text of the cluster must not become HTML or code"


def test_modules_import_files_that_exist() -> None:
    for path in PAGE.rglob("js/**/*.js"):
        for name in re.findall(r"^import .* from \"(.+)\";$", path.read_text(), flags=re.MULTILINE):
            assert (path.parent / name).is_file(), f"{path.name} imports {name}"


def test_vendored_parts_are_as_their_digests_say(tmp_path: Path) -> None:
    check = vendored()
    assert check.problems() == []
    copy = tmp_path / "vendor"
    shutil.copytree(check.VENDOR, copy)
    script = copy / "uplot" / "uPlot.iife.min.js"
    script.write_text(script.read_text() + "\n")
    (copy / "uplot" / "more.js").touch()
    (copy / "uplot" / "LICENSE").unlink()
    assert check.problems(copy) == [
        "uplot/more.js: not in vendored.json",
        "uplot/LICENSE: missing",
        "uplot/uPlot.iife.min.js: differs from its digest",
        "uplot: has no LICENSE",
    ]
