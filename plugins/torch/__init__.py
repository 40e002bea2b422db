# SPDX-License-Identifier: Apache-2.0
"""Torch: sets up torchrun, and turns a torchtune command into one that fits nodes and devices."""

from trainwright.plugins.torch.plugin import TorchPlugin

__all__ = ["TorchPlugin"]
