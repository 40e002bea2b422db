# SPDX-License-Identifier: Apache-2.0
"""CEL as Kubernetes evaluates it: expressions, Kubernetes' own functions, and the types that a schema gives them.

`expression` compiles and evaluates; `schemas` makes the values of a schema what its rules see, and judges rules.
"""
