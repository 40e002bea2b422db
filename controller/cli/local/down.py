# SPDX-License-Identifier: Apache-2.0
"""`trainwright local down`."""

import argparse

from trainwright.api.errors import UserError
from trainwright.api.messages import counted
from trainwright.controller.cli import folders, state
from trainwright.controller.cli.local import kubeconfigs, outputs, serving
from trainwright.controller.cli.local.options import LocalOptions, disk_errors, options_of
from trainwright.controller.local.node.pod.recovery import end_survivors
from trainwright.controller.local.node.settings import NodeSettings


def run(arguments: argparse.Namespace) -> int:
    options = options_of(arguments)
    if arguments.delete:
        folders.check_deletable(options.folder, arguments.dir)
    run = state.running(options.folder)
    if run is None:
        if state.is_held(options.folder):
            raise UserError(f"cluster {options.name}: {state.HELD}; wait for that")
        print(f"cluster {options.name}: does not run")
    elif (seconds := serving.stop(options.folder, run)) is not None:
        raise UserError(f"cluster {options.name}: process {run.pid} did not end within {seconds:.0f} s")
    else:
        print(f"cluster {options.name}: ended")
    with disk_errors(options):
        if (file := kubeconfigs.take_out(options.folder)) is not None:
            print(f"{file}: the cluster is taken out")
    if arguments.delete and options.folder.exists():
        _delete(options)
    return 0


def _delete(options: LocalOptions) -> None:
    with disk_errors(options), state.held(options.folder):
        # As its next start would: the folder holds the only records of what a cluster that was killed has left.
        pods = NodeSettings(name="", folder=options.folder).pods
        if pods.is_dir():
            end_survivors(pods)
        stays = folders.delete(options.folder)
    if stays:
        more = f" and {len(stays) - 1} more" if stays[1:] else ""
        print(f"{options.folder}: the cluster's files are deleted; the folder stays, because it holds {stays[0]}{more}")
    else:
        print(f"{options.folder}: deleted")
    its = [one for one in outputs.kept_in(options.runs) if one.owner.cluster == str(options.folder)]
    if its:
        said = counted(len(its), "output")
        print(f"{said} of its jobs stay{'s' if not its[1:] else ''} in {options.runs}: {options.command('outputs')}")
