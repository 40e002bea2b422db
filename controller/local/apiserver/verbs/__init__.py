# SPDX-License-Identifier: Apache-2.0
"""What is done with objects, one module for a verb or a few that belong together."""
