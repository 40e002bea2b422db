# SPDX-License-Identifier: Apache-2.0
"""Names with a random end, as the API server makes them from `generateName`.

Controllers make the name themselves and send `generateName` along: the object is the same, and the answer of the write
is shown by the cache at once, since its name is known before it is sent.
"""

import random

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""Without vowels and look-alikes, as in Kubernetes, so that no words come out."""
_RANDOM = 5
MOST = 63 - _RANDOM
"""Characters of a prefix that are kept."""


def generated(prefix: str, chance: random.Random) -> str:
    """A name that begins with `prefix`."""
    return prefix[:MOST] + "".join(chance.choices(_LETTERS, k=_RANDOM))
