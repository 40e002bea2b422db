# SPDX-License-Identifier: Apache-2.0
"""Controllers: sources of keys, workers, and what follows from the result of a reconcile."""
