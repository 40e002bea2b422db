# SPDX-License-Identifier: Apache-2.0
"""Finds the installed plugins, verifies them and puts them in order."""

from trainwright.plugins.registry.calling import Loaded, called, is_ours, place_of
from trainwright.plugins.registry.discovery import ENTRY_POINTS, PluginCandidate, built_in, installed
from trainwright.plugins.registry.registry import Registry, Selection

__all__ = [
    "ENTRY_POINTS",
    "Loaded",
    "PluginCandidate",
    "Registry",
    "Selection",
    "built_in",
    "called",
    "installed",
    "is_ours",
    "place_of",
]
