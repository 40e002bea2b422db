# SPDX-License-Identifier: Apache-2.0
"""What a manager owns of an object, read from the server's own field tree."""

from typing import Any

from trainwright.controller.runtime.apply.compare import Verdict, verdict
from trainwright.controller.runtime.apply.extract import extract

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
    assert verdict(extract(LIVE, owned), LIVE, owned) is Verdict.SAME
