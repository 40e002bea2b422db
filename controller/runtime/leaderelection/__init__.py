# SPDX-License-Identifier: Apache-2.0
"""Leader election: a Lease, a thread that renews it, and a fence before every write."""
