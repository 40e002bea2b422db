# SPDX-License-Identifier: Apache-2.0
"""Custom resources: their documents by the schema of a version (`crd`), and their definitions (`definitions`)."""
