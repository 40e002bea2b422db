# SPDX-License-Identifier: Apache-2.0
"""How objects and kinds are shown and found: tables, discovery, OpenAPI, selectors."""
