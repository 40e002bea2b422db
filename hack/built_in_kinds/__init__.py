# SPDX-License-Identifier: Apache-2.0
"""The table of built-in kinds, from a running kube-apiserver: `python -m hack.built_in_kinds`."""
