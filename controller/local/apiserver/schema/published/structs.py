# SPDX-License-Identifier: Apache-2.0
"""The built-in kinds as Go's structs: what decoding says of a document, and what it drops."""

from functools import cache

from trainwright.controller.local.apiserver.schema.published import published_models
from trainwright.controller.local.apiserver.schema.structs import Structs


@cache
def published_structs() -> Structs:
    """Shared, since they are compiled as they are used."""
    return Structs(published_models())
