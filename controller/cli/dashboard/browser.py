# SPDX-License-Identifier: Apache-2.0
"""Opens the page in the user's browser, without the token on a command line, which other users of the machine can read.

The browser gets the path of a file that only this user can read, and the file leads to the address.
"""

import html
import os
import shutil
import sys
import tempfile
import webbrowser
from pathlib import Path

_made: list[Path] = []


def is_there() -> bool:
    """Whether a browser can be opened here: not over ssh, and not without a display."""
    if os.environ.get("SSH_CONNECTION"):
        return False
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def prepare(address: str) -> str:
    """Make the file that leads to the address; returns its URL. Call `forget` at the end."""
    folder = Path(tempfile.mkdtemp(prefix="trainwright-dashboard-"))  # mode 0700
    _made.append(folder)
    file = folder / "open.html"
    file.write_text(
        f'<!doctype html><meta charset="utf-8"><title>Trainwright</title>'
        f'<meta http-equiv="refresh" content="0;url={html.escape(address, quote=True)}">\n',
        encoding="utf-8",
    )
    return file.as_uri()


def show(url: str) -> bool:
    """Open the file in a browser; returns whether one was found. Blocks, until its end if it runs in the terminal."""
    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False


def forget() -> None:
    while _made:
        shutil.rmtree(_made.pop(), ignore_errors=True)
