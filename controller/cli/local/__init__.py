# SPDX-License-Identifier: Apache-2.0
"""`trainwright local`: a cluster on this machine that trains, without containers."""
