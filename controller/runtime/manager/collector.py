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
    """After the first lists: collect once, then never look at what is there now."""
    gc.collect()
    gc.freeze()
