# SPDX-License-Identifier: Apache-2.0
"""The controller of Jobs: pods are created, counted and replaced until the Job is complete or has failed."""
