# SPDX-License-Identifier: Apache-2.0
"""A pod's life: its worker, the runs of its containers, probes, status, and what is left of it."""
