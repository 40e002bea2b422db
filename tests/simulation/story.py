# SPDX-License-Identifier: Apache-2.0
"""The story of one life in plain words: who did what to which object, and when."""

import re
from collections.abc import Iterator

from trainwright.controller.simulation.simulate import Outcome

_LINE = re.compile(r" *([0-9.]+) (\S+) +(.*)")
_STORE = re.compile(r"\d+ (ADDED|MODIFIED|DELETED) (\S+?)(?:\.\S+)? (\S*)/(\S+)")
_REQUEST = re.compile(r"(\S+) (POST|PUT|PATCH|DELETE) (\S+) (\d+)")
_VERBS = {"ADDED": "appears", "MODIFIED": "changes", "DELETED": "is gone"}
_DONE = {"POST": "creates", "PUT": "replaces", "PATCH": "patches", "DELETE": "deletes"}
_QUIET = ("leases", "events")


def story_of(outcome: Outcome, name: str = "") -> Iterator[str]:
    """The lines of a trace that was kept as sentences; of one object, if it is named, with what concerns all."""
    plan = outcome.plan
    faults = ", ".join(f"{key} {value:g}" for key, value in plan.faults.active.items()) or "none"
    yield f"seed {plan.seed}: {plan.replicas} managers, faults: {faults}"
    for line in outcome.lines:
        found = _LINE.match(line)
        if found is None:
            continue
        said = _sentence(found[2], found[3])
        if said and (not name or _is_about(found[2], found[3], name)):
            yield f"{float(found[1]):10.3f} s  {said}"


def _sentence(kind: str, text: str) -> str:
    if kind == "store" and (change := _STORE.match(text)):
        return "" if change[2] in _QUIET else f"{change[2]} {change[4]} {_VERBS[change[1]]}"
    if kind == "write" and (request := _REQUEST.match(text)):
        path = request[3].rpartition("/namespaces/")[2]
        return "" if any(one in path for one in _QUIET) else f"{request[1]} {_DONE[request[2]]} {path}: {request[4]}"
    if kind == "user":
        return f"a user: {text}"
    if kind == "fault":
        return f"fault: {text}"
    return f"{kind}: {text}" if kind in ("process", "phase", "WRONG") else ""


def _is_about(kind: str, text: str, name: str) -> bool:
    if kind in ("process", "phase"):
        return True
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w])", text) is not None
