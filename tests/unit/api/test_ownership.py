# SPDX-License-Identifier: Apache-2.0
"""What a manager owns of an object, read from the server's own field tree."""

from typing import Any

from trainwright.api.objects import Document
from trainwright.api.ownership import extract, without_emptied
from trainwright.controller.runtime.apply.compare import FieldComparison, compare

OWNED: dict[str, Any] = {
    "f:metadata": {"f:labels": {"f:app": {}}},
    "f:spec": {
        "f:selector": {},
        "f:finalizers": {".": {}, 'v:"a"': {}},
        "f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:name": {}, "f:port": {}}},
        "f:containers": {'k:{"name":"b"}': {}},
        "f:gone": {},
    },
}
LIVE: dict[str, Any] = {
    "metadata": {"name": "x", "labels": {"app": "shop", "theirs": "yes"}},
    "spec": {
        "selector": {"whole": {"value": 1}},
        "finalizers": ["b", "a"],
        "ports": [
            {"port": 81, "protocol": "TCP", "name": "theirs"},
            {"port": 80, "protocol": "TCP", "name": "http", "targetPort": 80},
        ],
        "containers": [{"name": "a"}, {"name": "b", "image": "i"}],
        "defaulted": True,
    },
}


def test_it_is_what_the_manager_applied_and_nothing_else() -> None:
    assert extract(LIVE, OWNED) == {
        "metadata": {"labels": {"app": "shop"}},
        "spec": {
            "selector": {"whole": {"value": 1}},
            "finalizers": ["a"],
            "ports": [{"port": 80, "name": "http"}],
            "containers": [{"name": "b", "image": "i"}],
        },
    }


def test_applying_it_changes_nothing() -> None:
    owned = {**OWNED, "f:spec": {name: node for name, node in OWNED["f:spec"].items() if name != "f:gone"}}
    assert compare(extract(LIVE, owned), LIVE, owned) is FieldComparison.SAME


FILLED: dict[str, Any] = {
    "f:metadata": {"f:labels": {"f:team": {}}},
    "f:spec": {
        "f:selector": {},
        "f:finalizers": {".": {}, 'v:"a"': {}},
        "f:volumes": {'k:{"name":"v"}': {".": {}, "f:name": {}, "f:emptyDir": {"f:medium": {}}}},
        "f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}, "f:options": {"f:a": {}}}},
    },
}


def test_what_was_filled_before_is_left_out_when_it_is_empty() -> None:
    document = {
        "metadata": {"name": "x", "labels": {}},
        "spec": {"finalizers": [], "volumes": [{"name": "v", "emptyDir": {}}], "ports": [{"port": 80, "options": {}}]},
    }
    assert without_emptied(document, FILLED) == {
        "metadata": {"name": "x"},
        "spec": {"volumes": [{"name": "v"}], "ports": [{"port": 80}]},
    }


def test_a_mapping_that_is_empty_without_its_emptied_parts_is_left_out_too() -> None:
    owned: Document = {"f:spec": {"f:template": {"f:metadata": {"f:labels": {"f:team": {}}}}, "f:image": {}}}
    document = {"spec": {"template": {"metadata": {"labels": {}}}, "image": "i"}}
    assert without_emptied(document, owned) == {"spec": {"image": "i"}}


def test_what_was_empty_before_or_is_owned_as_a_whole_stays_empty() -> None:
    document = {
        "metadata": {"name": "x", "labels": {"team": "b"}, "annotations": {}},
        "spec": {"selector": {}, "volumes": [{"name": "new", "emptyDir": {}}], "other": []},
    }
    assert without_emptied(document, FILLED) is document
