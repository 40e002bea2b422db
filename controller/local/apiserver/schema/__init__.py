# SPDX-License-Identifier: Apache-2.0
"""What an API server does to a document by its schema: prune, default, validate, as the real server does and says it.

- `compile_schema` compiles one version of a CRD (`Schema`).

Everything is pure: nothing waits, reads files or keeps state but what was compiled. It is held to the real server.
"""

from trainwright.controller.local.apiserver.schema.crd import Schema, compile_schema, unknown_field

__all__ = [
    "Schema",
    "compile_schema",
    "unknown_field",
]
