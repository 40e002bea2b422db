# SPDX-License-Identifier: Apache-2.0
"""Tokens of service accounts: verified with the API server's public keys, or by TokenReview."""
