# SPDX-License-Identifier: Apache-2.0
"""One replica of many works: a Lease, a thread that keeps it, and a fence before every write."""
