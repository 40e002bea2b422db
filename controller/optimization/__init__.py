# SPDX-License-Identifier: Apache-2.0
"""Hyperparameter search: an OptimizationJob makes TrainJobs, and their results choose the next parameters."""
