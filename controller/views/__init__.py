# SPDX-License-Identifier: Apache-2.0
"""What commands and the page show of jobs: views of objects as values and text, without a command or a server.

Begin with `job.py`, the view of one job."""
