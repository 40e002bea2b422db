# SPDX-License-Identifier: Apache-2.0
"""Between the decoded object and the store: who may change an object, and who may refuse it."""
