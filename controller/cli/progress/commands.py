# SPDX-License-Identifier: Apache-2.0
"""`trainwright progress`: shows how far TrainJobs are, once or live.

It reads `status.trainerStatus` with the rights of the user, so it works without a manager of ours and with
installations of Kubeflow Trainer. Curves hold what was seen since the command was started.
"""

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainwright.controller.cli.progress.following import Following
    from trainwright.controller.cli.progress.outputs import Output

REDRAW_SECONDS = 0.25
"""Shortest time between two drawings."""
AGE_SECONDS = 1.0
"""Longest time between two drawings that show the time that passes."""
_WRONG_USE, _INTERRUPTED, _BROKEN_PIPE = 2, 130, 141


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
    parser.add_argument("--kubeconfig", type=Path, help="kubeconfig (default: as for kubectl)")
    parser.add_argument("--context", help="context of the kubeconfig (default: the current one)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Show; returns the exit code."""
    # Imported here: the help does not need it.
    from trainwright.controller.runtime.errors import KubernetesError, NotFound  # noqa: PLC0415

    if arguments.job and arguments.all_namespaces:
        print("error: JOB is in one namespace; use -n instead of -A", file=sys.stderr)
        return _WRONG_USE
    try:
        return asyncio.run(_progress(arguments))
    except NotFound as error:
        # Either the job or the kind.
        missing = f"there is no TrainJob {arguments.job} in namespace {arguments.namespace}" if arguments.job else error
        print(f"error: {missing}", file=sys.stderr)
    except KubernetesError as error:
        print(f"error: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has gone, such as `head`. What is buffered has nowhere to go at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    return _WRONG_USE


async def _progress(arguments: argparse.Namespace) -> int:
    from trainwright.controller.cli.progress.following import Following  # noqa: PLC0415
    from trainwright.controller.cli.progress.outputs import output_for  # noqa: PLC0415
    from trainwright.controller.runtime import Client, HTTPTransport, load_config  # noqa: PLC0415

    config = load_config(arguments.kubeconfig, arguments.context)
    if not arguments.all_namespaces:
        arguments.namespace = arguments.namespace or config.namespace
    output = output_for(
        arguments.output, watch=arguments.watch, one=bool(arguments.job), namespaces=arguments.all_namespaces
    )
    client = Client(HTTPTransport(config), user_agent="trainwright-progress")
    try:
        following = Following(client, "" if arguments.all_namespaces else arguments.namespace, arguments.job or "")
        # Whatever is wrong with the cluster or with rights shows here; a watch would only try again.
        await following.read()
        if not arguments.watch:
            output.once(following.picture())
            return following.exit_code
        return await _watch(following, output)
    finally:
        await client.close()


async def _watch(following: "Following", output: "Output") -> int:
    from trainwright.controller.runtime.tasks import TaskScope  # noqa: PLC0415

    async with TaskScope("progress") as tasks:
        tasks.start("watch", following.run())
        with output.begin():
            while True:
                await following.read_attempt()
                output.show(following.picture())
                if following.is_over:
                    return following.exit_code
                await asyncio.sleep(REDRAW_SECONDS)
                await following.wait(AGE_SECONDS - REDRAW_SECONDS if output.ages else None)
