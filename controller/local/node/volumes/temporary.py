# SPDX-License-Identifier: Apache-2.0
"""The TMPDIR of a pod: a folder with a short path.

Python's multiprocessing, and with it the workers of data loaders, makes sockets in TMPDIR, and the path of a socket is
limited to 104 (macOS) or 108 bytes. A folder inside the state folder would be too long for many users. So it lies in
/tmp, and a link in the pod's folder names it, by which a later run of the cluster can remove it, too. It goes with the
pod's last process.
"""

import os
import re
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from trainwright.controller.local.node.files import remove_tree

SHORT = Path("/tmp")  # noqa: S108 - mkdtemp makes a folder that is the user's alone
PREFIX = "tw-"
_NAME = re.compile(PREFIX + "[a-z0-9_]{8}")
"""Names that mkdtemp makes."""
TEMPORARY = "tmp"
"""Name of the link in the folder of a pod."""


def make_temporary(link: Path) -> Path:
    """The folder that a link names; made with the link at the first call. Raises OSError."""
    if not link.is_symlink():
        link.parent.mkdir(parents=True, exist_ok=True)
        made = tempfile.mkdtemp(prefix=PREFIX, dir=SHORT if os.access(SHORT, os.W_OK) else None)
        link.symlink_to(made)
    return link.readlink()


def remove_temporary(link: Path) -> None:
    """Remove the folder that a link names, if there is one."""
    try:
        folder = link.readlink()
    except OSError:  # there is none, or none that is a link
        return
    # The link lies where pods can write: nothing but a folder as `make_temporary` makes them is removed.
    if _is_ours(folder):
        with suppress(OSError):
            remove_tree(folder)
    with suppress(OSError):
        link.unlink()


def _is_ours(folder: Path) -> bool:
    if folder.parent not in {SHORT, Path(tempfile.gettempdir())} or not _NAME.fullmatch(folder.name):
        return False
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
