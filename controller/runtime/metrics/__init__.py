# SPDX-License-Identifier: Apache-2.0
"""Numbers for dashboards, under the names that controller-runtime's dashboards already use."""
