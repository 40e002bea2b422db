# SPDX-License-Identifier: Apache-2.0
"""Scenarios as data: the YAML files beside this module.

A file has a list `scenarios`; each has `number`, `title`, `steps` and optionally `needs` (the documents of `setup.py`
that are created first). A step is one of:

- a request: `GET: PATH`, `POST: PATH`, `PUT: PATH`, `DELETE: PATH`, or `MERGE`, `JSON`, `STRATEGIC`, `APPLY` for the
  four types of patches;
- `WATCH: PATH`, which reads `frames` events, or all events of `seconds` (10 if not said); the steps of `during` run
  once the watch is open;
- `WAIT: PATH` with `until`, values by dotted path: repeats the GET until all values are there; `gone: true` waits for
  a 404;
- `LATER: hour`, after which history is compacted and Events are over;
- `RESTART: server`;
- `REVIEWS: sorted` or `REVIEWS: in order`, what the webhooks of the scenario (`hooks`; see `hooks.py`) were asked since
  the last such step.

Fields of a request: `query`, `headers`, `body` (sent as JSON), `text` (sent as it is), `token` (instead of the
administrator's), `status` or `until` (repeat until it is answered so), `capture` (names for values of the answer, by
dotted path), `each` (a list of steps that differ from this one in the named fields; `query` and `headers` are merged).

A path `~/configmaps` is in the scenario's own namespace; `batch/v1~/jobs` is the same in another group. Texts may hold
`${ns}`, `${name}` of a captured value, `${name+5}`, and `${a*254}`: a text 254 times. `${hooks}` is the URL of the
webhooks, `${bundle}` their `caBundle`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
PATCHES = {
    "MERGE": "application/merge-patch+json",
    "JSON": "application/json-patch+json",
    "STRATEGIC": "application/strategic-merge-patch+json",
    "APPLY": "application/apply-patch+yaml",
}
_VERBS = ("GET", "POST", "PUT", "DELETE", "OPTIONS", *PATCHES, "WATCH", "WAIT", "LATER", "RESTART", "REVIEWS")


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step; see the module."""

    verb: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    text: str | None = None
    token: str | None = None
    capture: Mapping[str, str] = field(default_factory=dict)
    until: Mapping[str, Any] = field(default_factory=dict)
    gone: bool = False
    status: int | None = None
    """Repeat the request until it is answered so; for what a server does a moment later."""
    frames: int = 1_000_000
    seconds: float = 10.0
    during: tuple["Step", ...] = ()

    def __str__(self) -> str:
        query = "&".join(f"{key}={value}" for key, value in self.query.items())
        return f"{self.verb} {self.path}{'?' if query else ''}{query}"


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A numbered list of steps."""

    number: int
    title: str
    section: str
    steps: tuple[Step, ...]
    needs: tuple[str, ...] = ()
    hooks: Mapping[str, Any] = field(default_factory=dict)
    """Webhooks by name; see `hooks.py`."""
    own_server: bool = False
    """Whether it needs a server of its own, which forgets within seconds and can be restarted (`own_server` of the
    file)."""

    @property
    def namespace(self) -> str:
        """The namespace that it has for itself."""
        return f"scenario-{self.number}"

    @property
    def prefixes(self) -> list[str]:
        """What it lets names be generated from."""
        return sorted({str(one) for step in self.steps for one in _values(step.body, "generateName") if one})


def sections() -> list[str]:
    """The names of the files, without their ending."""
    return sorted(path.stem for path in FOLDER.glob("[0-9]*.yaml"))


def load(section: str) -> list[Scenario]:
    """The scenarios of a file."""
    content = yaml.load((FOLDER / f"{section}.yaml").read_text(), Loader=yaml.CSafeLoader)
    return [
        Scenario(
            number=one["number"],
            title=one["title"],
            section=section,
            steps=tuple(step for document in one["steps"] for step in _steps(document)),
            needs=tuple(one.get("needs", ())),
            hooks=one.get("hooks", {}),
            own_server=content.get("own_server", False),
        )
        for one in content["scenarios"]
    ]


def load_all() -> list[Scenario]:
    """All scenarios by number."""
    return sorted((one for section in sections() for one in load(section)), key=lambda one: one.number)


def _values(document: Any, key: str) -> Iterator[Any]:
    if isinstance(document, dict):
        if key in document:
            yield document[key]
        for inner in document.values():
            yield from _values(inner, key)
    elif isinstance(document, list):
        for inner in document:
            yield from _values(inner, key)


def _steps(document: Mapping[str, Any]) -> Iterator[Step]:
    given = dict(document)
    variants = given.pop("each", None)
    verbs = [verb for verb in _VERBS if verb in given]
    assert len(verbs) == 1, f"a step has one verb, not {verbs}: {document}"
    path = given.pop(verbs[0])
    given["during"] = tuple(step for inner in given.get("during", ()) for step in _steps(inner))
    base = Step(verb=verbs[0], path=path, **given)
    if variants is None:
        yield base
    for variant in variants or ():
        changes = dict(variant)
        for name in ("query", "headers"):
            if name in changes:
                changes[name] = {**getattr(base, name), **changes[name]}
        yield replace(base, **changes)
