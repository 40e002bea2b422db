# SPDX-License-Identifier: Apache-2.0
"""What may be wrong with an installation before the first job.

The checks are pure functions of a survey; what they ask for is read. What could not be read is part of the result.
"""
