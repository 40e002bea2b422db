# SPDX-License-Identifier: Apache-2.0
"""Labels of the pods of a JobSet (https://jobset.sigs.k8s.io/docs/concepts/), which tell their place in it."""

from typing import Final

LABEL_JOBSET: Final = "jobset.sigs.k8s.io/jobset-name"
LABEL_JOBSET_UID: Final = "jobset.sigs.k8s.io/jobset-uid"
LABEL_ATTEMPT: Final = "jobset.sigs.k8s.io/restart-attempt"
"""How often the JobSet was restarted before the pod was made, from 0."""
LABEL_REPLICATED_JOB: Final = "jobset.sigs.k8s.io/replicatedjob-name"
LABEL_JOB_INDEX: Final = "jobset.sigs.k8s.io/job-index"
"""Which replica of the replicated job."""
LABEL_INDEX: Final = "batch.kubernetes.io/job-completion-index"
"""Which pod of the Job, its rank; set by Kubernetes' Job controller."""
