# SPDX-License-Identifier: Apache-2.0
"""`trainwright local status` and `list`: which clusters there are, and what one of them holds."""

import argparse
import shlex

from trainwright.controller.cli import state
from trainwright.controller.cli.local import limits
from trainwright.controller.cli.local.options import options_of

_MODES = {
    "namespaces": "in namespaces of the kernel, with their own names and paths",
    "rewrite": "beside each other; names and paths in what they are given are rewritten",
    "none": "none: the API server alone",
}


def status(arguments: argparse.Namespace) -> int:
    """Say how a cluster is; returns the exit code: 1 if it does not run."""
    if arguments.limits:
        print(*limits.lines(), sep="\n")
        return 0
    options = options_of(arguments)
    run = state.running(options.folder)
    if run is None:
        said = f"does not run; start it with: {options.command('up')}"
        print(f"cluster {options.name}: {state.HELD if state.is_held(options.folder) else said}")
        return 1
    print(f"cluster {run.name}: runs since {run.began} as process {run.pid}, version {run.version}")
    print(f"  API server   {run.server}")
    print(f"  kubeconfig   {options.folder / 'kubeconfig'}")
    print(f"  folder       {options.folder}")
    print(f"  pods         {_MODES[run.mode]}")
    if run.options:
        print(f"  options      {shlex.join(run.options)}")
    if run.mode == "none":
        return 0
    print(f"  dashboard    {run.dashboard or 'none'}")
    # Imported here: most of the time there is none, and the answer comes at once.
    from trainwright.controller.cli.local.content import content_of  # noqa: PLC0415

    for line in content_of(options.folder):
        print(f"  {line}")
    return 0


def clusters(_: argparse.Namespace) -> int:
    found = state.all_running()
    if not found:
        print("no cluster; start one with: trainwright local up")
    for folder, run in found:
        print(f"{folder.name:<20} {'runs at ' + run.server if run else 'does not run':<32} {folder}")
    return 0
