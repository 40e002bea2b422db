# SPDX-License-Identifier: Apache-2.0
"""Objects as `kubectl get` asks for them: rows and columns, made by the server.

- `table_format` is how a built-in kind is shown, `custom_table_format` how a custom resource is.
- `table_of_list` and `table_of_object` make Tables, `partial_metadata` and `partial_metadata_list` the metadata alone.
- `include_of` reads the query parameter `includeObject`.

The time is an argument, because a Table shows ages.
"""

from trainwright.controller.local.apiserver.views.tables.ages import human_duration
from trainwright.controller.local.apiserver.views.tables.custom import custom_table_format
from trainwright.controller.local.apiserver.views.tables.formats import TableFormat, table_format
from trainwright.controller.local.apiserver.views.tables.rendering import (
    Include,
    TableError,
    include_of,
    partial_metadata,
    partial_metadata_list,
    table_of_list,
    table_of_object,
)

__all__ = [
    "Include",
    "TableError",
    "TableFormat",
    "custom_table_format",
    "human_duration",
    "include_of",
    "partial_metadata",
    "partial_metadata_list",
    "table_format",
    "table_of_list",
    "table_of_object",
]
