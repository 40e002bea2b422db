# SPDX-License-Identifier: Apache-2.0
"""Gives each namespace its account `default` and the certificate of the API server's authority."""
