# SPDX-License-Identifier: Apache-2.0
"""Kinds that a CustomResourceDefinition defines."""
