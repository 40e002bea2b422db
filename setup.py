# SPDX-License-Identifier: Apache-2.0
"""Refuses to build from a clone whose symbolic links became text files; what is built is said in pyproject.toml.

Without this, the wheel of such a clone would be made without a word, and hold nothing.
"""

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

setup()
