# SPDX-License-Identifier: Apache-2.0
"""`trainwright progress`: shows how far TrainJobs are, once or live.

It reads `status.trainerStatus` with the rights of the user, so it works without a manager of ours and with
installations of Kubeflow Trainer. Curves hold what was seen since the command was started; those of one job begin
earlier if a manager of ours keeps histories.
"""

import argparse
import asyncio
import sys

from trainwright.controller.cli.commands import WrongUseError
from trainwright.controller.cli.progress.following import Following
from trainwright.controller.cli.progress.outputs import Display, output_for
from trainwright.controller.cli.reading import reading, run_reading
from trainwright.controller.runtime import TaskScope

REDRAW_SECONDS = 0.25
"""Shortest time between two drawings."""
AGE_SECONDS = 1.0
"""Longest time between two drawings that show the time that passes."""


def run(arguments: argparse.Namespace) -> int:
    if arguments.job and arguments.all_namespaces:
        raise WrongUseError("JOB is in one namespace; use -n instead of -A")
    return run_reading(_progress, arguments)


async def _progress(arguments: argparse.Namespace) -> int:
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


async def _watch(following: Following, output: Display) -> int:
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
