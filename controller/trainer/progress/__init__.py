# SPDX-License-Identifier: Apache-2.0
"""Progress of TrainJobs: what training reports, and how it reaches the status."""
