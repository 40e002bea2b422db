# SPDX-License-Identifier: Apache-2.0
# Generated from schemas by `trainwright generate`. Edit those, not this file.
"""The types of sea.example.com/v2."""

from api.sea.v2.models import (
    Boat,
    BoatSpec,
    BoatStatus,
)

__all__ = [
    "Boat",
    "BoatSpec",
    "BoatStatus",
]
