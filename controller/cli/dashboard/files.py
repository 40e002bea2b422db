# SPDX-License-Identifier: Apache-2.0
"""The files of the page. Only names that were there at the start are answered, so no path leads elsewhere."""

from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parent / "page"
INDEX = "index.html"
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/vnd.microsoft.icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
"""Files of other types are not served."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file of the page."""

    path: Path
    content_type: str


def files_of(folder: Path = PAGE) -> dict[str, PageFile]:
    """The files of a folder by the path of their address."""
    found = {
        f"/{path.relative_to(folder).as_posix()}": PageFile(path, TYPES[path.suffix])
        for path in sorted(folder.rglob("*"))
        if path.suffix in TYPES and path.is_file() and not path.is_symlink()
    }
    if f"/{INDEX}" in found:
        found["/"] = found[f"/{INDEX}"]
    return found
