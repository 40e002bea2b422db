# SPDX-License-Identifier: Apache-2.0
"""The Flux plugin: starts a Flux instance over all nodes, which runs the command of the TrainJob."""

from trainwright.plugins.flux.plugin import FluxPlugin

__all__ = ["FluxPlugin"]
