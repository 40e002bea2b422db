# SPDX-License-Identifier: Apache-2.0
"""Writes into aggregated ClusterRoles what they collect from others."""
