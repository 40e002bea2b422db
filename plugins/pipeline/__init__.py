# SPDX-License-Identifier: Apache-2.0
"""Turns a TrainJob and a runtime into objects, and objects into a status."""

from trainwright.plugins.pipeline.pipeline import Pipeline, StatusRun
from trainwright.plugins.pipeline.rendering import Rendering
from trainwright.plugins.pipeline.run import PipelineRun

__all__ = ["Pipeline", "PipelineRun", "Rendering", "StatusRun"]
