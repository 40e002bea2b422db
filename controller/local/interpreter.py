# SPDX-License-Identifier: Apache-2.0
"""How this Python starts programs of ours: without the user's folders on the path of imports.

`python -m` puts the current folder first, and PYTHONPATH names folders of the user's training. A `queue.py` there would
replace the one of Python, and an `egg-info` would be loaded as a plugin. What pods start is not concerned.
"""

import os
import sys
import sysconfig
from pathlib import Path

import trainwright


def isolated_python() -> list[str]:
    """The interpreter, and the options that keep the user's folders away."""
    return [sys.executable, "-P", *([] if _is_installed_by_variable() else ["-E"])]


def forget_user_folders() -> None:
    """Do the same in this process: for what is imported from now on."""
    sys.path[:] = path_without_user_folders()


def path_without_user_folders() -> list[str]:
    """The path of imports that programs of ours have."""
    if _is_installed_by_variable():
        return list(sys.path)
    # A folder of the installation stays, although the variable names it too.
    theirs = _folders_of_variable() - {Path(one).resolve() for one in sysconfig.get_paths().values()}
    return [entry for entry in sys.path if entry and Path(entry).resolve() not in theirs]


def _folders_of_variable() -> set[Path]:
    value = "" if sys.flags.ignore_environment else os.environ.get("PYTHONPATH", "")
    return {Path(entry).resolve() for entry in value.split(os.pathsep)} if value else set()


def _is_installed_by_variable() -> bool:
    """Whether Trainwright itself is found by PYTHONPATH: it would not be found without."""
    return Path(trainwright.__file__).parent.parent.resolve() in _folders_of_variable()
