# SPDX-License-Identifier: Apache-2.0
"""`trainwright progress`: shows how far TrainJobs are, once or live.

It reads `status.trainerStatus` with the rights of the user, so it works without a manager of ours and with
installations of Kubeflow Trainer. Curves hold what was seen since the command was started; those of one job begin
earlier if a manager of ours keeps histories.
"""

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING

from trainwright.controller.cli.reading import WRONG_USE, add_kubeconfig, reading, run_reading

if TYPE_CHECKING:
    from trainwright.controller.cli.progress.following import Following
    from trainwright.controller.cli.progress.outputs import Output

REDRAW_SECONDS = 0.25
"""Shortest time between two drawings."""
AGE_SECONDS = 1.0
"""Longest time between two drawings that show the time that passes."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the sub-command."""
    parser = subparsers.add_parser(
        "progress",
        help="show how far TrainJobs are",
        description="Show how far TrainJobs are, as their training reports it: a table of all, or all metrics of one. "
        "Reads the cluster of the kubeconfig and changes nothing. Exit code 0; 1 if the job that is named has failed "
        "or is deleted; 2 for a wrong command line, and for a job or cluster that cannot be read.",
    )
    parser.add_argument("job", metavar="JOB", nargs="?", help="name of a TrainJob (default: all)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-n", "--namespace", help="namespace (default: the one of the kubeconfig's context)")
    where.add_argument("-A", "--all-namespaces", action="store_true", help="TrainJobs of all namespaces")
    parser.add_argument(
        "-w",
        "--watch",
        action="store_true",
        help="go on, and show changes: a live picture on a terminal, else one line for each change. Ends with the job "
        "that is named, or with Ctrl-C",
    )
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="format (default: text)")
    add_kubeconfig(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Show; returns the exit code."""
    if arguments.job and arguments.all_namespaces:
        print("error: JOB is in one namespace; use -n instead of -A", file=sys.stderr)
        return WRONG_USE
    return run_reading(_progress, arguments)


async def _progress(arguments: argparse.Namespace) -> int:
    # Imported here: the help does not need it.
    from trainwright.controller.cli.progress.following import Following  # noqa: PLC0415
    from trainwright.controller.cli.progress.outputs import output_for  # noqa: PLC0415

    output = output_for(
        arguments.output, watch=arguments.watch, one=bool(arguments.job), namespaces=arguments.all_namespaces
    )
    async with reading(arguments, "trainwright-progress") as client:
        following = Following(client, "" if arguments.all_namespaces else arguments.namespace, arguments.job or "")
        # Whatever is wrong with the cluster or with rights shows here; a watch would only try again.
        await following.read()
        if following.unread:
            print(f"note: {following.unread}", file=sys.stderr)
        if not arguments.watch:
            output.once(following.picture())
            return following.exit_code
        return await _watch(following, output)


async def _watch(following: "Following", output: "Output") -> int:
    from trainwright.controller.runtime import TaskScope  # noqa: PLC0415

    async with TaskScope("progress") as tasks:
        tasks.start("watch", following.run())
        with output.begin():
            while True:
                await following.read_more()
                output.show(following.picture())
                if following.is_over:
                    return following.exit_code
                await asyncio.sleep(REDRAW_SECONDS)
                await following.wait(AGE_SECONDS - REDRAW_SECONDS if output.ages else None)
