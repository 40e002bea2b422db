# SPDX-License-Identifier: Apache-2.0
"""`trainwright progress`: how far TrainJobs are. `following` reads the cluster, `view` is pure."""
