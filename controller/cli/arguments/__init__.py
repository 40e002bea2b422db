# SPDX-License-Identifier: Apache-2.0
"""The commands and their arguments, for help and parser. Nothing large is imported here."""
