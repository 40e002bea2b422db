# SPDX-License-Identifier: Apache-2.0
"""What the document of a pod says, and what follows from it alone."""
