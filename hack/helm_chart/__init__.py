# SPDX-License-Identifier: Apache-2.0
"""Makes the Helm charts from config/; `python -m hack.helm_chart` writes them."""
