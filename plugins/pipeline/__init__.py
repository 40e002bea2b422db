# SPDX-License-Identifier: Apache-2.0
"""From a TrainJob and a runtime to objects, and from objects to a status."""

from trainwright.plugins.pipeline.pipeline import Pipeline, Rendering

__all__ = ["Pipeline", "Rendering"]
