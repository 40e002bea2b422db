# SPDX-License-Identifier: Apache-2.0
"""Jobs beside each other: what differs between them, and what they came to. Used by the page and by the terminal."""
