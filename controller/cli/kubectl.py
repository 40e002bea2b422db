# SPDX-License-Identifier: Apache-2.0
"""`trainwright kubectl`: the kubectl of this machine, on the local cluster. The user's kubeconfig stays as it is."""

import argparse
import os
import shutil
import sys

from trainwright.controller.cli import state

_NO_PROGRAM = 127


def run(arguments: argparse.Namespace) -> int:
    """Run kubectl in place of this process. Returns 127 if there is none. Raises UserError if no cluster runs."""
    folder = state.only_running()
    program = shutil.which("kubectl")
    if program is None:
        print(
            "error: kubectl is not installed; `trainwright local` lists, shows, stops and deletes jobs without it",
            file=sys.stderr,
        )
        return _NO_PROGRAM
    rest = [] if arguments.passed_on is None else ["--", *arguments.passed_on]
    environment = {**os.environ, "KUBECONFIG": str(folder / "kubeconfig")}
    return os.execve(program, [program, *arguments.arguments, *rest], environment)  # noqa: S606 - signals reach it
