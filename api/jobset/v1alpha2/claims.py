# SPDX-License-Identifier: Apache-2.0
"""What a JobSet takes along when it is deleted."""

from trainwright.api.jobset.v1alpha2.models import JobSet


def makes_claims(jobset: JobSet) -> bool:
    """Whether the JobSet makes volumes by `volumeClaimPolicies`, so that a new JobSet must not take its place.

    They would be deleted with it. Where they are retained, JobSet 0.12 refuses a JobSet whose claim exists, unless its
    template equals what the API server and the binding have made of the claim.
    """
    return any(policy.templates for policy in jobset.spec_or_empty.volume_claim_policies or ())
