# SPDX-License-Identifier: Apache-2.0
"""The controller of JobSets: their Jobs and headless Service are created, watched, restarted and cleaned up."""
