# SPDX-License-Identifier: Apache-2.0
"""How a text that is too long is cut."""

import pytest

from trainwright.api.messages import CONDITION_LIMIT, plain, shortened, value_text
from trainwright.api.trainer.v1alpha1 import RuntimeRef


def test_a_long_message_keeps_what_it_is_about_and_what_is_wrong() -> None:
    assert shortened("a" * CONDITION_LIMIT) == "a" * CONDITION_LIMIT
    message = shortened(f'JobSet "a" is invalid: spec: Invalid value: {"x" * 1000}: field is immutable')
    assert len(message) == CONDITION_LIMIT
    assert message.startswith('JobSet "a" is invalid')
    assert message.endswith("x: field is immutable")


@pytest.mark.parametrize("length", [10, 149, 150, 151, 200, 224])
def test_the_advice_of_a_sentence_is_never_cut(length: int) -> None:
    """Also one that is longer than the end of a text that is kept."""
    advice = "; map the image to a command " + "y" * (length - len("; map the image to a command "))
    message = shortened(f"container node cannot be created: {'x' * 500}{advice}")
    assert len(message) == CONDITION_LIMIT
    assert message.startswith("container node cannot be")
    assert message.endswith(f"x{advice}")


def test_of_several_clauses_the_last_ones_stay_whole() -> None:
    text = f"it fails: {'x' * 300}; correct {'y' * 60}; its log ends with: {'z' * 60}"
    assert shortened(text).endswith(f"x; correct {'y' * 60}; its log ends with: {'z' * 60}")
    long = f"it fails: {'x' * 300}; correct {'y' * 60}; its log ends with: {'z' * 190}"
    message = shortened(long)
    assert (len(message), message.endswith(f"y; its log ends with: {'z' * 190}")) == (CONDITION_LIMIT, True)


def test_the_beginning_is_not_cut_for_several_clauses() -> None:
    begins = "the job failed after 2 attempts without progress"
    advice = f"; the others waited at {'y' * 40}; its only retry is used up: {'z' * 70}"
    message = shortened(f"{begins}; the last: rank 1 was elsewhere: {'x' * 70}{advice}")
    assert (len(message), message.endswith(f"x{advice}")) == (CONDITION_LIMIT, True)
    assert message.startswith(begins)


def test_advice_that_leaves_no_room_for_the_object_is_cut() -> None:
    message = shortened(f"job a is wrong; {'x' * 400}")
    assert (len(message), message.startswith("job a is wrong; ")) == (CONDITION_LIMIT, True)


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


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("\x1b[1;31mValueError\x1b[0m: no data\x00", "ValueError: no data"),
        ("\x1b]0;a title\x07text \x1b]8;;http://example.com\x1b\\link", "text link"),
        ("\x1b]0;without an end", "0;without an end"),
        ("\x9b31mred \x90 \x84", "red  "),
        ("\x1bc\x1b(Bclear\x1b", "clear"),
        ("\u202egnp.exe\u2069\u200b\ufeff", "gnp.exe"),
        (" 10%|#    |\r 20%|##   |\r", " 20%|##   |"),
        ("one\r\ntwo\r\n", "one\ntwo\n"),
        ("a\tb\u2028c\x0bd\x07\x08", "a\tb\nc\nd"),
        ("größe 你好 👩\u200d💻", "größe 你好 👩\u200d💻"),
        ("\x00\x00", ""),
    ],
)
def test_a_foreign_text_becomes_harmless(text: str, told: str) -> None:
    assert plain(text) == told
    assert plain(told) == told
