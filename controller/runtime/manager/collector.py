# SPDX-License-Identifier: Apache-2.0
"""Tuning of the cyclic garbage collector (design D4).

Measured, the collector at its default thresholds costs half to three quarters of decoding, because every container
counts and none of them forms a cycle. What the caches hold after the first lists is moved out of its sight.
"""

import gc

THRESHOLDS = (200_000, 50, 100)


def tune() -> None:
    """At the start: collect rarely."""
    gc.set_threshold(*THRESHOLDS)


def freeze() -> None:
    """After the first lists: never look again at what is there now.

    Only the young generation is collected before: 200,000 objects at most, some 20 ms. A whole collection would block
    the loop for half a second where 10,000 objects are cached as dictionaries, and would find next to nothing more.
    """
    gc.collect(0)
    gc.freeze()
