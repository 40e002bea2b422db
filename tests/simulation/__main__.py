# SPDX-License-Identifier: Apache-2.0
"""Lives simulated worlds from the command line: many seeds, one seed with its story, the smallest plan of a failure.

python -m tests.simulation --seeds 0-99
python -m tests.simulation --minutes 2            # new seeds
python -m tests.simulation --seed 7 --story j3
python -m tests.simulation --seed 7 --shrink      # writes the plan into a file
python -m tests.simulation --recovering --seeds 0-99    # jobs that recover, whose ranks fail and hang
python -m tests.simulation --queued --seeds 0-99        # jobs that recover and wait in a queue
python -m tests.simulation --plan FILE --story
"""

import argparse
import logging
import multiprocessing
import secrets
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, as_completed, wait
from functools import partial
from itertools import count
from pathlib import Path

from tests.simulation.coverage import never_met, table
from tests.simulation.queueing import SCENARIOS, kind_of, live
from tests.simulation.scenario import TrainJobs
from tests.simulation.story import story_of
from trainwright.controller.simulation.plan import ScenarioPlan
from trainwright.controller.simulation.simulate import Outcome, shrink, simulate

_TELL_SECONDS = 60.0
"""Between two lines about what is done, where worlds have none of their own."""
_RECOVERING = 20
"""Of so many worlds with new seeds, the jobs of one recover."""


def main(words: Sequence[str] | None = None) -> int:
    """Exit code 0, 1 if a rule did not hold, or 130 if a signal ended it before one did not."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Live simulated worlds.")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seeds", metavar="A-B", help="seeds from A to B")
    which.add_argument("--minutes", type=float, metavar="M", help="new seeds for so many minutes")
    which.add_argument("--seed", metavar="N", help="one seed")
    which.add_argument("--plan", type=Path, metavar="FILE", help="a plan, such as one that --shrink wrote")
    for kind, told in (
        ("recovering", "jobs recover, as in one of 20 worlds of new seeds"),
        ("queued", "jobs recover, and wait in a queue"),
    ):
        parser.add_argument(f"--{kind}", dest="kind", action="store_const", const=kind, default="", help=told)
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default: %(default)s)")
    parser.add_argument("--story", nargs="?", const="", metavar="NAME", help="tell what happened, to NAME or at all")
    parser.add_argument("--shrink", action="store_true", help="find the smallest plan that breaks the same rule")
    parser.add_argument("--rule", default="", help="the rule to shrink for (default: the first that is broken)")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write the whole trace into a file")
    parser.add_argument("--coverage", action="store_true", help="print which fault and action met jobs in which state")
    parser.add_argument("--quiet", action="store_true", help="print a line for a world only if a rule is broken")
    parser.add_argument("--until-found", action="store_true", help="end at the first broken rule")
    arguments = parser.parse_args(words)
    logging.basicConfig(level="CRITICAL")
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        return _one(arguments) if arguments.seed is not None or arguments.plan is not None else _many(arguments)
    finally:
        signal.signal(signal.SIGTERM, before)


def _one(arguments: argparse.Namespace) -> int:
    scenario = SCENARIOS[arguments.kind]()
    plan = ScenarioPlan.read(arguments.plan) if arguments.plan is not None else scenario.plan(arguments.seed)
    outcome = simulate(scenario, plan, keep=True)
    _show(outcome)
    if arguments.trace is not None:
        arguments.trace.write_text("\n".join(outcome.lines) + "\n")
    if arguments.story is not None:
        print(*story_of(outcome, arguments.story), sep="\n")
    if arguments.shrink and outcome.violations:
        rule = arguments.rule or outcome.violations[0].rule
        plan = shrink(scenario, plan, rule, tell=lambda line: print(f"  {rule}: {line}", flush=True))
        path = Path(f"{plan.seed}-{rule}.json")
        path.write_text(plan.text())
        print(f"{path}: {len(plan.steps)} steps")
        _show(simulate(scenario, plan))
        print(*plan.steps, sep="\n")
    return 1 if outcome.violations else 0


def _many(arguments: argparse.Namespace) -> int:
    begun = time.monotonic()
    worlds, lives, virtual, broken, met = 0, 0, 0.0, Counter[str](), Counter[str]()
    counts = Counter[str]()
    examples: dict[str, str] = {}
    told, outcomes = begun, _outcomes(arguments, begun)
    was_ended = False
    while True:
        try:
            outcome = next(outcomes, None)
        except KeyboardInterrupt:
            was_ended, outcome = True, None
            print("ended by a signal; what was found until then:")
        if outcome is None:
            break
        worlds, virtual = worlds + 1, virtual + outcome.virtual_seconds
        lives += sum(step.what in ("create", "recreate") for step in outcome.plan.steps)
        broken.update(outcome.broken)
        counts.update(outcome.counts)
        met.update({name: 1 for name in outcome.counts if name.startswith("sometimes")})
        for violation in outcome.violations:
            kind = kind_of(outcome.plan)
            which = f"{kind} --seed" if kind else "seed"
            examples.setdefault(violation.rule, f"{which} {outcome.plan.seed}: {violation}")
        if outcome.violations or not arguments.quiet:
            _show(outcome)
            sys.stdout.flush()
        if outcome.violations and arguments.until_found:
            break
        if arguments.quiet and time.monotonic() - told >= _TELL_SECONDS:
            told = time.monotonic()
            print(f"{worlds} worlds, {lives} lives so far", flush=True)
    spent = time.monotonic() - begun
    hours, rate = virtual / 3600, lives / spent * 60
    print(f"{worlds} worlds, {lives} lives, {hours:.1f} virtual hours in {spent:.0f} s: {rate:.0f} lives a minute")
    for name, often in sorted(met.items()):
        print(f"  {name.removeprefix('sometimes: ')}: in {often} worlds")
    actions = [name for name in TrainJobs().actions if name != "create"]
    if arguments.coverage:
        print("How often each fault and action met a job in each state:", *table(counts, actions), sep="\n")
        if unmet := never_met(counts, actions):
            print(f"never met: {', '.join(unmet)}")
    for rule, often in broken.most_common():
        seed, _, text = examples[rule].partition(": ")
        print(f"BROKEN {rule} in {often} worlds, such as {seed}: {text}")
        which, _, number = seed.rpartition(" ")
        print(f"  replay it: python -m tests.simulation --{which}={number} --story --shrink")
    return 1 if broken else 128 + signal.SIGINT if was_ended else 0


def _outcomes(arguments: argparse.Namespace, begun: float) -> Iterator[Outcome]:
    def worlds() -> Iterator[Callable[[], Outcome]]:
        if arguments.seeds:
            first, _, last = arguments.seeds.partition("-")
            for number in range(int(first), int(last or first) + 1):
                yield partial(live, str(number), arguments.kind)
        else:
            for number in count():
                if time.monotonic() - begun >= arguments.minutes * 60:
                    return
                is_to_recover = not arguments.kind and number % _RECOVERING == _RECOVERING - 1
                yield partial(live, secrets.token_hex(4), "recovering" if is_to_recover else arguments.kind)

    if arguments.jobs == 1:
        yield from (world() for world in worlds())
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.jobs, mp_context=context) as pool:
        waiting: set[Future[Outcome]] = set()
        for world in worlds():  # no more of them than are lived soon, since those of a time never end
            waiting.add(pool.submit(world))
            if len(waiting) >= 2 * arguments.jobs:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield from (one.result() for one in done)
        yield from (one.result() for one in as_completed(waiting))


def _show(outcome: Outcome) -> None:
    counts = outcome.counts
    print(
        f"seed {outcome.plan.seed}: {outcome.digest} {outcome.virtual_seconds:.0f} virtual seconds in "
        f"{outcome.real_seconds:.1f} s, {counts['fault']} faults, {counts['store']} changes, "
        f"{len(outcome.deaths)} deaths {' '.join(outcome.broken)}".rstrip()
    )
    for violation in outcome.violations[:5]:
        print(f"  {violation}")


if __name__ == "__main__":
    raise SystemExit(main())
