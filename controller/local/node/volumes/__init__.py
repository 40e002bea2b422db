# SPDX-License-Identifier: Apache-2.0
"""The folders that containers get: projected files, tokens, volumes, outputs."""
