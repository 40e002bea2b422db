# SPDX-License-Identifier: Apache-2.0
"""The admission webhooks: their answers and their registration."""
