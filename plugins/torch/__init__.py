# SPDX-License-Identifier: Apache-2.0
"""The Torch plugin: sets up torchrun, and completes torchtune commands for the nodes and devices of the job."""

from trainwright.plugins.torch.plugin import TorchPlugin

__all__ = ["TorchPlugin"]
