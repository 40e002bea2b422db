# SPDX-License-Identifier: Apache-2.0
"""What pods do on a node, as data: the YAML files in `cases`.

A file has a list `cases`; each has a `name` and

- `pod`, a spec, or `pods`, specs by the names of the pods. Containers without an image get that of Python. Pods are not
  started again and have no token, unless their spec says so;
- `objects`, created before the pods, such as a ConfigMap;
- `moving`, whether the pods go on changing, so that their last status hangs on the moment;
- `steps`, in order. Each has one of these keys; `pod` names the pod where there are several:

  - `until`: waits for `over` (Succeeded or Failed), `Running`, `ready`, `gone`, `{restarts: N}`, `{waiting: REASON}`
    of any container, `{running: CONTAINER}`, or `{event: REASON}`;
  - `log`: the query of a read of the log, such as `{container: main, tailLines: 1}`;
  - `exec`: a command, with `container`, `stdin` (a text, after which standard input ends) and `tty`;
  - `status`: what it is now, in a case that goes on. The last one, unless `moving`, and the events are noted;
  - `apply`: an object, server-side; `delete`: options of the deletion of the pod; `sleep`: seconds.

Steps `log`, `exec` and `status` are answers that are recorded and compared.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).with_name("cases")
IMAGE = "python:3.13-slim"
POD = "p"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step; see the module."""

    verb: str
    argument: Any
    pod: str
    options: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.verb} {self.argument}"


@dataclass(frozen=True, kw_only=True)
class Case:
    """Some pods, and what is asked of them."""

    area: str
    """The name of the file."""
    name: str
    pods: Mapping[str, Mapping[str, Any]]
    objects: tuple[Mapping[str, Any], ...]
    steps: tuple[Step, ...]
    moving: bool


_VERBS = ("until", "log", "exec", "status", "apply", "delete", "sleep")


def load_all() -> list[Case]:
    """All cases, in the order of their files."""
    return [
        _case(path.stem, entry)
        for path in sorted(FOLDER.glob("*.yaml"))
        for entry in yaml.load(path.read_text(), Loader=yaml.CSafeLoader)["cases"]
    ]


def _case(area: str, entry: dict[str, Any]) -> Case:
    pods = entry.pop("pods", None) or {POD: entry.pop("pod")}
    first = next(iter(pods))
    made = Case(
        area=area,
        name=entry.pop("name"),
        pods={name: _spec(spec) for name, spec in pods.items()},
        objects=tuple(entry.pop("objects", ())),
        moving=entry.pop("moving", False),
        steps=tuple(_step(step, first) for step in entry.pop("steps", [{"until": "over"}])),
    )
    if entry:
        raise ValueError(f"{area}: {made.name}: no such keys: {list(entry)}")
    return made


def _step(entry: dict[str, Any], pod: str) -> Step:
    (verb,) = (key for key in entry if key in _VERBS)
    options = {key: value for key, value in entry.items() if key not in (verb, "pod")}
    return Step(verb=verb, argument=entry[verb], pod=entry.get("pod", pod), options=options)


def _spec(spec: dict[str, Any]) -> dict[str, Any]:
    made = {"restartPolicy": "Never", "automountServiceAccountToken": False, **spec}
    for kind in ("initContainers", "containers"):
        if kind in made:
            made[kind] = [{"image": IMAGE, "imagePullPolicy": "IfNotPresent", **one} for one in made[kind]]
    return made
