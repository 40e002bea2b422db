# SPDX-License-Identifier: Apache-2.0
"""The schema compiler: authored CRD schemas in; models, deepcopy, defaulting, CRDs and docs out."""

if __name__ != "trainwright.codegen":
    raise ImportError("import trainwright.codegen, not codegen: a second path would load a second copy")
