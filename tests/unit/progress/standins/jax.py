# SPDX-License-Identifier: Apache-2.0
"""Stand-in of JAX: the rank of a process."""

from types import SimpleNamespace


def process_index() -> int:
    """The rank of this process."""
    return 0


distributed = SimpleNamespace(initialize=lambda: None)
