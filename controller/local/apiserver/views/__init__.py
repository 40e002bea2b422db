# SPDX-License-Identifier: Apache-2.0
"""How objects and kinds are shown and found: tables, discovery, OpenAPI, selectors, and the form that a client accepts.

All of it is read from the rows of resources. Begin with `tables` for what `kubectl get` prints; `cells` has the cells.
"""
