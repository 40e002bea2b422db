# SPDX-License-Identifier: Apache-2.0
"""The `trainwright` command."""
