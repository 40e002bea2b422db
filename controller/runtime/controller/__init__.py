# SPDX-License-Identifier: Apache-2.0
"""Controllers: what makes a key due, who works on it, and what becomes of the outcome."""
