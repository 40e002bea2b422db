# SPDX-License-Identifier: Apache-2.0
"""`trainwright local up`."""

import argparse
import shlex
from dataclasses import replace

from trainwright.controller.cli import folders, state
from trainwright.controller.cli.commands import WrongUseError
from trainwright.controller.cli.dashboard.keys import KeptKeys
from trainwright.controller.cli.local import kubeconfigs, serving
from trainwright.controller.cli.local.options import LocalOptions, disk_errors, options_of
from trainwright.controller.cli.local.run import check_system


def run(arguments: argparse.Namespace) -> int:
    options = options_of(arguments)
    if arguments.use_context and not arguments.merge_kubeconfig:
        raise WrongUseError("--use-context goes with --merge-kubeconfig")
    if arguments.foreground and arguments.merge_kubeconfig:
        raise WrongUseError("--merge-kubeconfig does not go with --foreground")
    with disk_errors(options):
        check_system()
        if arguments.new_token:
            _renew_token(options)
        if arguments.foreground:
            serving.run_in_foreground(options)
            return 0
        found = _running(options)
        if found.dashboard:
            print(f"dashboard: {found.dashboard}")
        print(f"export KUBECONFIG={shlex.quote(str(options.folder / 'kubeconfig'))}")
        if arguments.merge_kubeconfig:
            file = kubeconfigs.user_file()
            context = kubeconfigs.merge(options.folder, file, use_context=arguments.use_context)
            current = ", which is the current one" if arguments.use_context else ""
            print(f"{file}: has context {context} now{current}")
    return 0


def _running(options: LocalOptions) -> state.ClusterRun:
    """The cluster, which is started if it does not run."""
    run = serving.started_elsewhere(options.folder)
    if run is None:
        return _start(options)
    if why := options.unlike(run):
        raise serving.ClusterStartError(why)
    print(f"cluster {options.name}: runs already, at {run.server}")
    return run


def _start(options: LocalOptions) -> state.ClusterRun:
    try:
        run = serving.start_in_background(options)
    except serving.ClusterStartError:
        # Two commands at once: one of them finds the folder in use.
        found = serving.started_elsewhere(options.folder)
        if found is None:
            raise
        run = found
    print(f"cluster {options.name}: ready at {run.server}")
    return run


def _renew_token(options: LocalOptions) -> None:
    """Rotate the dashboard's secret. A server that runs takes the new one with its next request."""
    folders.claim(options.folder)
    keys = KeptKeys(options.folder).renew()
    run = state.running(options.folder)
    if run is not None and run.dashboard:
        state.write(options.folder, replace(run, dashboard=keys.address))
