# SPDX-License-Identifier: Apache-2.0
"""A scheduler for few nodes: which pod fits on which node, and why not."""
