# SPDX-License-Identifier: Apache-2.0
"""The API server of the local cluster."""
