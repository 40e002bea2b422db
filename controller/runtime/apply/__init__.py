# SPDX-License-Identifier: Apache-2.0
"""Makes objects on the cluster match wanted documents, and writes only on a difference."""
