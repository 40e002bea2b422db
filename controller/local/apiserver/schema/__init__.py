# SPDX-License-Identifier: Apache-2.0
"""What schemas say of documents: checks of values and CEL rules of custom kinds, and what was recorded of others."""
