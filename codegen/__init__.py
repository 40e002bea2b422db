# SPDX-License-Identifier: Apache-2.0
"""Schemas in, everything else out. Run it with `python -m trainwright.codegen`; it sees nothing but api/.

The way of a schema, and the module of each step:

1. `catalog` reads the authored files and brings in what they reach of Kubernetes' own types (`kubernetes`);
2. `structural` checks what was authored; all that is wrong (`problems`) is told at once, and nothing is written;
3. `released` and `compatibility` judge what has changed since the last release;
4. `openapi` and `structs` let datamodel-code-generator decide the Python types, and `python` writes the modules, with
   copies (`copying`), defaults (`defaulting`) and merge words (`merging`);
5. `crd`, `json_schema` and `reference` write CustomResourceDefinitions, JSON Schemas and pages;
6. `output` puts all files in place, or none.
"""

if __name__ != "trainwright.codegen":
    raise ImportError("import trainwright.codegen, not codegen: a second path would load a second copy")
