# SPDX-License-Identifier: Apache-2.0
"""What an API server does to a document by its schema: prune, default, validate, as the real server does and says it.

- `compile_schema` compiles one version of a CRD (`Schema`).
- `SchemaFieldError` is one wrong field; `causes` and `summary` make of several what a Status holds.

Everything is pure: nothing waits, reads files or keeps state but what was compiled. It is held to the real server.
"""

from trainwright.controller.local.apiserver.schema.compiled import Schema, compile_schema, unknown_field
from trainwright.controller.local.apiserver.schema.errors import (
    DocumentDecodeError,
    SchemaError,
    SchemaFieldError,
    causes,
    summary,
)

__all__ = [
    "DocumentDecodeError",
    "Schema",
    "SchemaError",
    "SchemaFieldError",
    "causes",
    "compile_schema",
    "summary",
    "unknown_field",
]
