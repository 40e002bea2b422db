# SPDX-License-Identifier: Apache-2.0
"""`trainwright progress`: how far TrainJobs are. `commands` reads the cluster, `view` and `history` are pure."""
