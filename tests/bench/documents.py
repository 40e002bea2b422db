# SPDX-License-Identifier: Apache-2.0
"""Documents of the local API server that could take long: the largest of OpenAPI, and a protobuf body nested too deep.

CPU time: of the document the first time, since parts of it are kept; of the body, with its making, the best of several
rounds. The body is refused at a depth, so ten times the levels do not take longer than ten times as long to make.
"""

import functools
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.machine import budget
from tests.unit.local.test_openapi import GROUPS
from tests.unit.local.test_protobuf import nested
from trainwright.controller.local.apiserver.request.protobuf import ProtobufError
from trainwright.controller.local.apiserver.views.openapi import document

ROUNDS = 5
LEVELS = (300, 3_000)
BUDGET_SECONDS = 0.02


def best(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """CPU seconds of the fastest round; other work on the machine can only add."""
    found = []
    for _ in range(rounds):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return min(found)


def refused(levels: int) -> None:
    """A body that is nested too deep."""
    with suppress(ProtobufError):
        nested(levels)


def main() -> None:
    """Measure and print."""
    largest = best(lambda: msgspec.json.encode(document(GROUPS[0].versions["v1"], "1.36")), rounds=1)
    print(f"the largest document of OpenAPI: {largest:.3f} s ({budget(BUDGET_SECONDS)})")
    for levels in LEVELS:
        print(f"protobuf with {levels} levels, made and refused: {best(functools.partial(refused, levels)):.4f} s")


if __name__ == "__main__":
    main()
