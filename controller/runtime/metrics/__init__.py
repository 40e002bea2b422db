# SPDX-License-Identifier: Apache-2.0
"""Metrics with the names that the dashboards of controller-runtime use."""
