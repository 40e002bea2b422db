# SPDX-License-Identifier: Apache-2.0
"""The process: what runs in it, in which order it starts and stops, and its settings."""
