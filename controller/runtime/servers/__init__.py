# SPDX-License-Identifier: Apache-2.0
"""HTTP servers of the process: metrics, health probes, debug; and who may read the metrics."""
