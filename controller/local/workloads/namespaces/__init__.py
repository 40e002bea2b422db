# SPDX-License-Identifier: Apache-2.0
"""Deletes the content of namespaces that are being deleted, and says what is left."""
