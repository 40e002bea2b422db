# SPDX-License-Identifier: Apache-2.0
"""The work queue: each key once, in a fair order."""
