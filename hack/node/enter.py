# SPDX-License-Identifier: Apache-2.0
"""Runs a command in the namespaces of a node: `python -I -S enter.py FOLDER COMMAND…`, in the folder that it is run in.

It joins the cgroups of the node first. Settings of the machine stay outside, except those of proxies and of pip.
"""

import os
import re
import sys
from pathlib import Path

_KEPT = re.compile(r"(?i)(https?|no)_proxy|PIP_(INDEX_URL|EXTRA_INDEX_URL|TRUSTED_HOST|DEFAULT_TIMEOUT)|TERM|LANG")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def main() -> None:
    """Become the command."""
    folder, *command = sys.argv[1:]
    pid = Path(folder, "pid").read_text().strip()
    for group in Path(folder, "groups").read_text().split():
        Path(group).write_text("0")
    variables = {name: value for name, value in os.environ.items() if _KEPT.fullmatch(name)}
    variables |= {name[5:]: value for name, value in os.environ.items() if name.startswith("NODE_")}
    spaces = ["--mount", "--net", "--uts", "--ipc", "--pid", "--cgroup", "--root", "--wd"]
    place = ["/usr/bin/env", f"--chdir={os.environ.get('NODE_PWD', '/')}"]
    os.execvpe(  # noqa: S606 - no shell is wanted
        "nsenter",
        ["nsenter", "--target", pid, *spaces, *place, *command],
        {**variables, "PATH": _PATH, "HOME": "/root"},
    )


if __name__ == "__main__":
    main()
