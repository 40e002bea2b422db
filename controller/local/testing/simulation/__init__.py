# SPDX-License-Identifier: Apache-2.0
"""Deterministic simulation of an operator and its cluster, from one seed; see docs/runtime/simulation.md."""
