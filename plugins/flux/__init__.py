# SPDX-License-Identifier: Apache-2.0
"""Flux: a Flux instance over all nodes, which runs the command of the TrainJob."""

from trainwright.plugins.flux.plugin import FluxPlugin

__all__ = ["FluxPlugin"]
