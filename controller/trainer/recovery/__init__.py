# SPDX-License-Identifier: Apache-2.0
"""Recovery of TrainJobs: why an attempt ended, which budget pays for it, and what follows.

Kubernetes restarts the ranks by rules that the plugin `Recovery` compiles. What is here corrects the cause, keeps the
record, and ends a job, holds it or gives it a new JobSet where those rules say otherwise.
"""
