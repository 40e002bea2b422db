# SPDX-License-Identifier: Apache-2.0
"""Admission: questions of the API server, answered by functions on models."""
