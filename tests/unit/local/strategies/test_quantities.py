# SPDX-License-Identifier: Apache-2.0
"""Quantities as kube-apiserver writes them back; tests/integration/api compares all of them with a server."""

import pytest

from trainwright.controller.local.types.go_json import quantity_text


@pytest.mark.parametrize("text", ["+1", "5.", "2E3", "1", "100m", "1500m", "1Ki", "9Gi", "1e3"])
def test_kept(text: str) -> None:
    assert quantity_text(text) == text


@pytest.mark.parametrize(
    ("text", "made"),
    [("1000", "1k"), (".5", "500m"), ("0.1", "100m"), ("1024Ki", "1Mi"), ("1.5Gi", "1536Mi"), ("20e2", "2e3")],
)
def test_made_canonical(text: str, made: str) -> None:
    assert quantity_text(text) == made


def test_numbers_and_nonsense() -> None:
    assert quantity_text(1000) == "1k"
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity_text("1 Gi")
