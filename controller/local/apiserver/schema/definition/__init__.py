# SPDX-License-Identifier: Apache-2.0
"""CustomResourceDefinitions themselves: their defaults, their validation, their names and conditions.

- `set_defaults` fills in what a create or update leaves out.
- `validate_definition` gives the errors of a create or update.
- `accepted_names` tells which names a definition gets and what its conditions say.

Definitions are JSON documents. Costs of rules are not estimated.
"""

from trainwright.controller.local.apiserver.schema.definition.spec import (
    Accepted,
    accepted_names,
    set_defaults,
    unrecognized_formats,
    validate_definition,
)

__all__ = ["Accepted", "accepted_names", "set_defaults", "unrecognized_formats", "validate_definition"]
