# SPDX-License-Identifier: Apache-2.0
"""Records the scenarios: `python -m tests.scenarios.record [SECTION ...] [--check]`.

Runs them against the real server of the test kit. With `--check` nothing is written, and a difference from the kept
recordings is an error: it is a flaw of the list, or another version of Kubernetes.
"""

import argparse
import asyncio
import sys

from tests.scenarios import comparison, model, recordings
from tests.scenarios.normal import normal
from tests.scenarios.runner import Runner
from tests.scenarios.sides import real_side, version_of


async def record(sections: list[str], *, check: bool) -> list[str]:
    """Run the scenarios of the sections. Returns the differences from the kept recordings if they are to be checked."""
    found: list[str] = []
    for own in (False, True):
        wanted = {name: scenarios for name in sections if (scenarios := model.load(name))[0].own_server == own}
        if not wanted:
            continue
        async with real_side(forgetful=own) as side:
            version = await version_of(side)
            for section, scenarios in wanted.items():
                answers = {}
                for scenario in scenarios:
                    print(f"{scenario.number} {scenario.title}", file=sys.stderr)
                    answers[scenario.number] = normal(await Runner(side, scenario).run(), scenario.prefixes)
                if not check:
                    recordings.write(section, version, answers)
                    continue
                kept = recordings.read(section)
                for number, now in answers.items():
                    found += [f"{number}: {one}" for one in comparison.differences(kept[number], now)]
    return found


def main() -> int:
    """Run the program. Returns its exit code."""
    parser = argparse.ArgumentParser(description="Record the scenarios with the real API server.")
    parser.add_argument("sections", nargs="*", help="files of scenarios without their ending; default: all")
    parser.add_argument("--check", action="store_true", help="compare with the recordings instead of writing them")
    options = parser.parse_args()
    known = model.sections()
    wanted = [name for name in known if not options.sections or name.startswith(tuple(options.sections))]
    found = asyncio.run(record(wanted, check=options.check))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
