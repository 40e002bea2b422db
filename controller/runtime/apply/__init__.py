# SPDX-License-Identifier: Apache-2.0
"""Making the cluster look as wanted, and writing only where it does not."""
