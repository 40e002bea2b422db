# SPDX-License-Identifier: Apache-2.0
# Generated from schemas by `trainwright generate`. Edit those, not this file.
"""The types of sea.example.com/v1."""

from api.sea.v1.models import (
    Boat,
    BoatSpec,
)

__all__ = [
    "Boat",
    "BoatSpec",
]
