# SPDX-License-Identifier: Apache-2.0
"""The schema compiler: it generates models, CustomResourceDefinitions, JSON Schemas and pages from authored schemas.

Run it with `python -m trainwright.codegen`. It imports nothing but api/. The steps, with the modules of each:

1. `catalog` reads the authored files and adds the types of Kubernetes that they refer to (`kubernetes`);
2. `structural` checks the authored schemas; if there are problems, all are reported and no file is written;
3. `released` classifies the changes since the last release;
4. `structs` lets datamodel-code-generator choose the Python types, and `python` writes the modules, with `methods` for
   copies and defaults, and with merge metadata;
5. `crd` and `reference` write CustomResourceDefinitions, JSON Schemas and pages;
6. `output` puts all files in place, or none.
"""

if __name__ != "trainwright.codegen":
    raise ImportError("import trainwright.codegen, not codegen: a second path would load a second copy")
