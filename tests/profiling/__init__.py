# SPDX-License-Identifier: Apache-2.0
"""Where a process of ours spends its CPU time: `sampler` runs in the process, `rooms` makes a table of its samples."""
