# SPDX-License-Identifier: Apache-2.0
"""Whatever a document holds, the engine gives an answer, and what it has made of a document it leaves as it is."""

import copy
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.integration.local.random_writes import groups, random_object
from trainwright.controller.local.apiserver.kinds.custom import CustomStrategy, Schema
from trainwright.controller.local.types.go_json import DocumentDecodeError

SOURCES = {
    name: groups()[name]["definition"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for name in ("shapes", "rules")
}
SHAPES, RULED = (Schema(source) for source in SOURCES.values())
RANDOM = st.randoms(use_true_random=False)


def decode(document: dict[str, Any], group: str = "shapes") -> list[str]:
    """As the server does with the body of a request."""
    strategy = CustomStrategy(SOURCES[group], has_status=True)
    dropped = strategy.drop_unknown(document)
    strategy.default(document)
    return dropped


def decoded(random: Random) -> dict[str, Any] | None:
    made = random_object(random, "shapes", wildness=0.5)
    if random.random() < 0.5:
        made["status"] = random_object(random, "shapes", wildness=0.5)["spec"]
    try:
        decode(made)
    except DocumentDecodeError:
        return None
    return made


@given(random=RANDOM)
@settings(max_examples=300, deadline=None)
def test_decoding_twice_changes_nothing(random: Random) -> None:
    once = decoded(random)
    if once is None:
        return
    twice = copy.deepcopy(once)
    assert decode(twice) == []
    assert twice == once


@given(random=RANDOM)
@settings(max_examples=300, deadline=None)
def test_validation_answers_and_changes_nothing(random: Random) -> None:
    new, old = decoded(random), decoded(random)
    if new is None or old is None:
        return
    before = copy.deepcopy((new, old))
    created, updated = SHAPES.validate(new), SHAPES.validate(new, old)
    SHAPES.validate(new, old, status=True)
    assert (new, old) == before
    assert set(updated) <= set(created)
    assert all(error.message and error.field for error in created)


@given(random=RANDOM)
@settings(max_examples=150, deadline=None)
def test_an_unchanged_object_is_accepted_by_every_rule_that_compares(random: Random) -> None:
    stored = random_object(random, "rules", wildness=0.0)
    decode(stored, "rules")
    told = RULED.validate(stored, copy.deepcopy(stored))
    assert [error for error in told if "fixed" in error.message or "once" in error.message] == []
