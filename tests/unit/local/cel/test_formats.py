# SPDX-License-Identifier: Apache-2.0
"""Formats of strings, by the patterns of `k8s.io/kube-openapi/pkg/validation/strfmt`."""

import pytest

from trainwright.controller.local.types.formats import is_hostname


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node", True),
        ("n-ode", True),
        ("no-de", False),
        ("-node", False),
        ("node-0.pool.example.com", True),
        ("-node.example.com", False),
        ("node-.example.com", False),
        ("node..example.com", False),
        ("node.io", True),
        ("node.example.c", False),
        ("node.example.c0m", False),
        (f"{'a' * 64}.com", False),
    ],
)
def test_a_hostname_is_labels_and_a_last_one_of_letters(text: str, expected: bool) -> None:
    assert is_hostname(text) is expected
