# SPDX-License-Identifier: Apache-2.0
"""Kubernetes events: recorded without blocking, aggregated, rate-limited."""
