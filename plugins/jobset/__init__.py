# SPDX-License-Identifier: Apache-2.0
"""JobSet: owns the template's kind. Builds the JobSet from the pod sets, and reads the status from it."""

from trainwright.plugins.jobset.plugin import JobSetPlugin

__all__ = ["JobSetPlugin"]
