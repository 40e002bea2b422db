# SPDX-License-Identifier: Apache-2.0
"""Warning headers, as the API server writes them."""

import pytest

from trainwright.controller.runtime.client.exchange import warnings_in


@pytest.mark.parametrize(
    ("header", "texts"),
    [
        ('299 - "careful"', ("careful",)),
        (r'299 - "unknown field \"spec.x\""', ('unknown field "spec.x"',)),
        (r'299 - "a \\ b"', ("a \\ b",)),
        ('199 - "of no server"', ()),
        ("nonsense", ()),
    ],
)
def test_texts_are_unquoted(header: str, texts: tuple[str, ...]) -> None:
    assert warnings_in([header]) == texts
