# SPDX-License-Identifier: Apache-2.0
"""What happened in a world: requests, changes, faults, steps of users. Two runs of a seed have the same."""

import asyncio
import hashlib
from collections import Counter


class Trace:
    """Lines with the virtual time, and a digest of all of them and of all bodies.

    Args:
        keep: keep the lines, for the story of one life and to find the first difference between two.
    """

    def __init__(self, *, keep: bool = False) -> None:
        self._digest = hashlib.blake2b(digest_size=16)
        self._keep = keep
        self.lines: list[str] = []
        self.counts: Counter[str] = Counter()

    def add(self, kind: str, text: str, body: bytes = b"") -> None:
        """Note what happens now.

        Args:
            kind: one word.
            text: a sentence.
            body: bytes that belong to it; only their digest is kept.
        """
        line = f"{asyncio.get_running_loop().time():12.6f} {kind:8} {text}"
        if body:
            line += f" #{hashlib.blake2b(body, digest_size=6).hexdigest()}"
        self._digest.update(line.encode())
        self.counts[kind] += 1
        if self._keep:
            self.lines.append(line)

    def sometimes(self, what: str) -> None:
        """Count a situation that simulations must meet; what none meets is not tested."""
        self.counts[f"sometimes: {what}"] += 1

    @property
    def digest(self) -> str:
        """The same for the same trace."""
        return self._digest.hexdigest()
