# SPDX-License-Identifier: Apache-2.0
"""What an API server would say to a document, without one.

Takes a document through the same steps: nulls and unknown fields are dropped, defaults filled in, the schema, the
invariants of lists and the CEL rules checked. Needs the extra `validate`; nothing of it is imported before it is used.
The API server stays the authority: tests put the same documents to both.
"""

from trainwright.api.validation.document import NoSchemaError, ValidationResult, validate
from trainwright.api.validation.errors import DocumentError

__all__ = ["DocumentError", "NoSchemaError", "ValidationResult", "validate"]
