# SPDX-License-Identifier: Apache-2.0
"""Pods and pod templates."""
