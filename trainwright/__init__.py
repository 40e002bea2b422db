# SPDX-License-Identifier: Apache-2.0
"""Distributed training on Kubernetes: the Kubeflow Trainer API, served from Python.

The packages below this one are links to the top-level folders of the repository; import them through this root only.
"""

__version__ = "0.1.0.dev0"
