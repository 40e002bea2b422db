# SPDX-License-Identifier: Apache-2.0
"""Labels, annotations and the finalizer of the Job API.

Source: https://kubernetes.io/docs/reference/labels-annotations-taints/
"""

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
"""Annotation and label of a pod of an Indexed Job."""
INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
"""Annotation: failures of the pods before this one, with `backoffLimitPerIndex`."""
INDEX_IGNORED_FAILURES = "batch.kubernetes.io/job-index-ignored-failure-count"
TRACKING = "batch.kubernetes.io/job-tracking"
"""Finalizer of a pod that its Job has not counted yet."""
MANAGED_BY_US = "kubernetes.io/job-controller"
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
