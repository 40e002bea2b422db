# SPDX-License-Identifier: Apache-2.0
"""Where the repository is, and what git says about it."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def git(*arguments: str) -> str:
    """Output of git in the repository, which may belong to another user, as a checkout in a container often does."""
    number = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
    trusted = {f"GIT_CONFIG_KEY_{number}": "safe.directory", f"GIT_CONFIG_VALUE_{number}": str(ROOT)}
    environment = {**os.environ, **trusted, "GIT_CONFIG_COUNT": str(number + 1)}
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
