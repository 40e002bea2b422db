# SPDX-License-Identifier: Apache-2.0
"""What was recorded of the built-in kinds on the real server."""
