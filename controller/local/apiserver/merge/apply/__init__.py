# SPDX-License-Identifier: Apache-2.0
"""Server-side apply: documents merged into objects, and who owns which field.

An endpoint has a `FieldManager`. It is asked what an apply makes of an object (`apply`), and at every other write who
owns what afterwards (`update`). Around it stand defaults, pruning, validation and storage, which are not here.

- `custom_resource_managers` makes the field managers of a CustomResourceDefinition, `FieldManager` itself those of
  built-in kinds: from `Types` (the published schemas), with what their endpoints reset and the `empty_object`.
- `ApplyError` is what a client is answered; `errors` has the tree.
- `check_entries` tells whether mutating admission left the managed fields valid.
- `without_new_times` keeps a write from happening that would change nothing but times.

It is held to Kubernetes' own library; docs/decisions.md says where it differs.
"""

from trainwright.controller.local.apiserver.merge.apply.crd import custom_resource_managers
from trainwright.controller.local.apiserver.merge.apply.errors import (
    ApplyError,
    BadRequestError,
    ConflictError,
    InternalError,
)
from trainwright.controller.local.apiserver.merge.apply.fieldmanager import (
    FieldManager,
    check_entries,
    without_managed_fields,
)
from trainwright.controller.local.apiserver.merge.apply.openapi import Types
from trainwright.controller.local.apiserver.merge.apply.published import empty_object
from trainwright.controller.local.apiserver.merge.apply.timestamps import without_new_times

__all__ = [
    "ApplyError",
    "BadRequestError",
    "ConflictError",
    "FieldManager",
    "InternalError",
    "Types",
    "check_entries",
    "custom_resource_managers",
    "empty_object",
    "without_managed_fields",
    "without_new_times",
]
