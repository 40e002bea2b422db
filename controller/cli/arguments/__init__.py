# SPDX-License-Identifier: Apache-2.0
"""The arguments of each command, for help and parser. Nothing large is imported here; `commands` is the table."""
