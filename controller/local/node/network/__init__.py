# SPDX-License-Identifier: Apache-2.0
"""Addresses, names and ports of pods."""
