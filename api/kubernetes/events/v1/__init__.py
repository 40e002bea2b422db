# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
"""The types of events.k8s.io/v1."""

from trainwright.api.kubernetes.events.v1.models import (
    Event,
    EventSeries,
)

__all__ = [
    "Event",
    "EventSeries",
]
