# SPDX-License-Identifier: Apache-2.0
"""How a text that is too long is cut."""

import pytest

from trainwright.api.messages import CONDITION_LIMIT, shortened, value_text
from trainwright.api.trainer.v1alpha1 import RuntimeRef


def test_a_long_message_keeps_what_it_is_about_and_what_is_wrong() -> None:
    assert shortened("a" * CONDITION_LIMIT) == "a" * CONDITION_LIMIT
    message = shortened(f'JobSet "a" is invalid: spec: Invalid value: {"x" * 1000}: field is immutable')
    assert len(message) == CONDITION_LIMIT
    assert message.startswith('JobSet "a" is invalid')
    assert message.endswith("x: field is immutable")


@pytest.mark.parametrize("limit", [7, 8, 120])
def test_the_limit_is_kept_exactly(limit: int) -> None:
    assert len(shortened("0123456789" * 20, limit)) == limit


def test_a_value_is_shown_as_json() -> None:
    assert (
        value_text(RuntimeRef(name="größe"), 120) == '{"name":"größe"}'
        or value_text(RuntimeRef(name="größe"), 120) == '{"name": "größe"}'
    )
    assert value_text(RuntimeRef(name="größe"), 120) == '{"name": "größe"}'
    assert value_text({"a": "b" * 100}, 20).endswith('bb"}')
