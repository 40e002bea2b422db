# SPDX-License-Identifier: Apache-2.0
# Generated from schemas by `trainwright generate`. Edit those, not this file.
"""API groups below `api`, one package each."""
