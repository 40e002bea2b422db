# SPDX-License-Identifier: Apache-2.0
"""Tunes the cyclic garbage collector.

Measured: with its default thresholds the collector takes half to three quarters of the time of decoding, because every
container counts and none is part of a cycle. After the first lists the cached objects are frozen, so that the collector
no longer visits them.
"""

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
