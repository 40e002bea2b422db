# SPDX-License-Identifier: Apache-2.0
"""Deletes what is over: Jobs that have outlived their time to live, and the oldest of many finished pods."""
