# SPDX-License-Identifier: Apache-2.0
"""Refuses to build from a clone whose symbolic links became text files, and writes the page for package indexes.

What is built is said in pyproject.toml. Without the check, the wheel of such a clone would be made without a word, and
hold nothing. The page is README.md, with links that work outside of the repository.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent
# Links in a clone, folders in a source distribution.
FOLDERS = (
    *(f"trainwright/{name}" for name in ("api", "codegen", "controller", "plugins")),
    "trainwright/controller/cli/rendering/shipped",
    "trainwright/controller/runtime/testing/modules",
)

broken = [name for name in FOLDERS if not (ROOT / name).is_dir()]
if broken:
    raise SystemExit(
        f"error: these must be symbolic links: {', '.join(broken)}.\n"
        "Clone again with links: git clone -c core.symlinks=true … "
        "(on Windows: inside WSL, or with developer mode on)"
    )


def index_page() -> str:
    """README.md. Links into the repository lead to its address if pyproject.toml has one; else they become text."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"].get("urls", {})
    source = urls.get("Source", "").rstrip("/")
    into_the_repository = r"\[([^]]+)\]\((?![a-z]+:|#)([^)\s]+)\)"
    link = rf"[\1]({source}/blob/HEAD/\2)" if source else r"\1"
    return re.sub(into_the_repository, link, (ROOT / "README.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    setup(long_description=index_page(), long_description_content_type="text/markdown")
