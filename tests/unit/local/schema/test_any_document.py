# SPDX-License-Identifier: Apache-2.0
"""Whatever a document holds, the engine gives an answer, and what it has made of a document it leaves as it is."""

import copy
import json
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.integration.local.shapes import FIELDS, definition, ruled_definition, ruled_spec, spec
from trainwright.controller.local.apiserver.schema.crd import Schema
from trainwright.controller.local.types.go_json import DocumentDecodeError


def compiled(crd: dict[str, Any]) -> Schema:
    return Schema(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


SHAPES = compiled(definition("shapes", FIELDS))
RULED = compiled(ruled_definition("ruleds"))
RANDOM = st.randoms(use_true_random=False)


def document(random: Random) -> dict[str, Any]:
    made: dict[str, Any] = {"kind": "Shape", "metadata": {"name": "a"}, "spec": spec(random, wildness=0.5)}
    if random.random() < 0.5:
        made["status"] = spec(random, wildness=0.5)
    # As it comes from the wire: no branch is shared.
    read: dict[str, Any] = json.loads(json.dumps(made))
    return read


def decoded(random: Random) -> dict[str, Any] | None:
    made = document(random)
    try:
        SHAPES.decode(made)
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
    assert SHAPES.decode(twice) == []
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
    stored = json.loads(json.dumps({"kind": "Ruled", "metadata": {"name": "a"}, "spec": ruled_spec(random)}))
    RULED.decode(stored)
    told = RULED.validate(stored, copy.deepcopy(stored))
    assert [error for error in told if "fixed" in error.message or "once" in error.message] == []
