# SPDX-License-Identifier: Apache-2.0
"""What may be wrong with an installation before the first job: pure functions of a survey, which is read for them."""
