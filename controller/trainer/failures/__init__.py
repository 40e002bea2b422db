# SPDX-License-Identifier: Apache-2.0
"""The record of failures: which rank failed first in each attempt, and the last lines of its log.

Kubernetes deletes pods with their logs when a JobSet restarts or a Job reaches its backoff limit. So the evidence is
taken while the pods exist, and kept in a ConfigMap of the job.
"""
