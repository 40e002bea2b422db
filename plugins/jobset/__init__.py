# SPDX-License-Identifier: Apache-2.0
"""The JobSet plugin: builds the JobSet of a job from the template, and computes the status of the job from it."""

from trainwright.plugins.jobset.plugin import JobSetPlugin

__all__ = ["JobSetPlugin"]
