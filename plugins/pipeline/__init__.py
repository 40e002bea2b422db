# SPDX-License-Identifier: Apache-2.0
"""Turns a TrainJob and a runtime into objects, and objects into a status."""

from trainwright.plugins.pipeline.run import Pipeline, PipelineRun, Rendering, StatusRun, filled_in

__all__ = ["Pipeline", "PipelineRun", "Rendering", "StatusRun", "filled_in"]
