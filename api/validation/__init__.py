# SPDX-License-Identifier: Apache-2.0
"""What parts of a document may be: CEL rules, patterns, formats, names. Pure functions of values."""

from typing import NamedTuple


class DocumentError(NamedTuple):
    """One error, with the fields of an entry of `causes` in a Status."""

    reason: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field or '<root>'}: {self.message}"
