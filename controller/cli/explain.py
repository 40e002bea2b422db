# SPDX-License-Identifier: Apache-2.0
"""`trainwright explain`: says why a TrainJob does not train, in one sentence, or how the trials of a search stand.

It reads with the rights of the user, and works without a manager and with installations of Kubeflow Trainer. The exit
code says how the job stands: 0 it runs or is complete, 1 it failed or is stuck, 2 wrong use, 3 it waits.
"""

import argparse
import asyncio
import json
import sys
from contextlib import suppress

from trainwright.api.times import wall_clock
from trainwright.controller.cli.access import reading, run_reading
from trainwright.controller.runtime import Client, NotFound
from trainwright.controller.trainer.why import Explanation, Reader
from trainwright.controller.views import search
from trainwright.controller.views.explanation import as_json, explaining_plugins, lines_of
from trainwright.plugins.contract import JobState

WATCH_SECONDS = 2.0


def run(arguments: argparse.Namespace) -> int:
    return run_reading(_explain, arguments)


async def _explain(arguments: argparse.Namespace) -> int:
    async with reading(arguments, "trainwright-explain") as client:
        reader = Reader(client, explaining_plugins())
        if arguments.watch:
            return await _watch(reader, arguments)
        try:
            explanation = await reader.explain(arguments.namespace, arguments.job)
        except NotFound:
            return await _explain_search(client, reader, arguments)
        show(explanation, arguments.output, everything=arguments.all)
        return explanation.exit_code


async def _explain_search(client: Client, reader: Reader, arguments: argparse.Namespace) -> int:
    """The name is that of an OptimizationJob. Raises NotFound if it is that of none."""
    found = await search.read_search(client, arguments.namespace, arguments.job, wall_clock())
    waiting: dict[str, Explanation] = {}
    for one in found.trials:
        if not one.trial.is_over and one.state != JobState.RUNNING:
            with suppress(NotFound):  # deleted a moment ago
                waiting[one.train_job] = await reader.explain(arguments.namespace, one.train_job)
    sentences = {name: explanation.cause.message for name, explanation in waiting.items()}
    if arguments.output == "json":
        print(json.dumps(search.as_json(found, sentences), ensure_ascii=False))
    else:
        print("\n".join(search.lines_of(found, sentences, everything=arguments.all)))
    if found.paused:
        return 3
    if found.failed or (found.message and not found.ended):
        return 1
    runs = found.ended or not found.trials or len(waiting) < len(found.trials) - found.over
    return 0 if runs else 3


async def _watch(reader: Reader, arguments: argparse.Namespace) -> int:
    """Show the explanation whenever it changes, until the job is over."""
    shown: object = None
    while True:
        explanation = await reader.explain(arguments.namespace, arguments.job)
        said = (explanation.outcome, explanation.cause.message, explanation.others if arguments.all else ())
        if said != shown:
            show(explanation, arguments.output, everything=arguments.all)
            sys.stdout.flush()
            shown = said
        if explanation.outcome.is_over:
            return explanation.exit_code
        await asyncio.sleep(WATCH_SECONDS)


def show(explanation: Explanation, output: str = "text", *, everything: bool = False) -> None:
    if output == "json":
        print(json.dumps(as_json(explanation), ensure_ascii=False))
        return
    print("\n".join(lines_of(explanation, everything=everything)))
