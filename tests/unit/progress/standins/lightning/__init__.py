# SPDX-License-Identifier: Apache-2.0
"""Stand-in of Lightning: a Trainer that calls its callbacks as that of version 2 does."""

from typing import Any

from lightning.pytorch import Callback, Trainer  # type: ignore[import-not-found,unused-ignore]

__all__ = ["Callback", "Trainer"]
_: Any = None
