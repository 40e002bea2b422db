# SPDX-License-Identifier: Apache-2.0
"""The garbage collector of a process. Imports nothing, so that a command can tune it before its imports."""

import gc

THRESHOLDS = (200_000, 50, 100)


def tune_collector() -> None:
    """Collect rarely. Called at the start."""
    gc.set_threshold(*THRESHOLDS)


def freeze_collector() -> None:
    """Exclude all present objects from later collections. Called after the first lists.

    Before that only the young generation is collected: at most 200,000 objects, about 20 ms. A full collection would
    block the loop for half a second with 10,000 objects cached as dictionaries, and would find almost nothing more.
    """
    gc.collect(0)
    gc.freeze()
