# SPDX-License-Identifier: Apache-2.0
"""The Helm charts and the real helm, which is built from its Go module; see `controller.runtime.testing.tools`."""

import functools
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.repository import ROOT
from trainwright.controller.runtime.testing.build import provide

CHARTS = ROOT / "charts"
MANAGER = CHARTS / "trainwright"
RUNTIMES = CHARTS / "trainwright-runtimes"
NAMESPACE = "kubeflow-system"

Document = dict[str, Any]


class Helm:
    """The program, with folders of its own, for one cluster or none."""

    def __init__(self, folder: Path, kubeconfig: Path | None = None) -> None:
        self.program = provide(["helm"])["helm"]
        self._folder = folder
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("HELM_", "KUBE"))}
        homes = {f"HELM_{kind}_HOME": str(folder / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        cluster = {"KUBECONFIG": str(kubeconfig or folder / "none")}
        self.environment = {**inherited, **homes, **cluster}

    def tried(self, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
        """Run it to its end, whatever that is."""
        return subprocess.run(
            [self.program, *arguments], env=self.environment, capture_output=True, text=True, check=False, timeout=120
        )

    def __call__(self, *arguments: str | Path) -> str:
        """Run it; returns its standard output."""
        done = self.tried(*arguments)
        assert done.returncode == 0, f"helm {' '.join(map(str, arguments))}: {done.stderr}{done.stdout}"
        return done.stdout

    def template(
        self, chart: Path, values: Mapping[str, Any] | None = None, *arguments: str, namespace: str = NAMESPACE
    ) -> list[Document]:
        """What a chart installs with these values."""
        text = self("template", "release", chart, f"--namespace={namespace}", *self.given(values), *arguments)
        return documents(text)

    def refusal(self, chart: Path, values: Mapping[str, Any]) -> str:
        """What it says to values that it refuses."""
        done = self.tried("template", "release", chart, *self.given(values))
        assert done.returncode != 0, "not refused"
        return done.stderr

    def given(self, values: Mapping[str, Any] | None) -> Sequence[str]:
        """The option that passes values."""
        if not values:
            return ()
        file = self._folder / f"values-{abs(hash(json.dumps(values)))}.json"
        file.write_text(json.dumps(values))
        return (f"--values={file}",)


def nested(values: Mapping[str, Any]) -> Document:
    """Values by their paths with dots, as a document. The names of `runtimes` may have dots."""
    document: Document = {}
    for path, value in values.items():
        *sections, name = path.split(".", 1) if path.startswith("runtimes.") else path.split(".")
        place = document
        for section in sections:
            place = place.setdefault(section, {})
        place[name] = value
    return document


def schema_of(chart: Path) -> Document:
    """The schema of the values of a chart."""
    found: Document = json.loads((chart / "values.schema.json").read_text())
    return found


def paths_of(chart: Path) -> list[str]:
    """The paths of all values of a chart."""
    return [*_leaves(schema_of(chart))]


def _leaves(schema: Document, path: str = "") -> Iterator[str]:
    for name, one in schema["properties"].items():
        if one.get("properties") and "description" not in one:
            yield from _leaves(one, f"{path}{name}.")
        elif name != "global":
            yield f"{path}{name}"


def kustomized(folder: Path, *options: str) -> list[Document]:
    """What `kubectl apply -k` would apply of a folder."""
    command = [str(provide(["kubectl"])["kubectl"]), "kustomize", str(folder), *options]
    return documents(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout)


def documents(text: str) -> list[Document]:
    """The documents of a stream of YAML."""
    return [found for one in re.split(r"^---$", text, flags=re.MULTILINE) if (found := json.loads(_as_json(one)))]


@functools.lru_cache(maxsize=256)
def _as_json(text: str) -> str:
    """One document. Definitions are long and the same each time."""
    return json.dumps(yaml.load(text, Loader=yaml.CSafeLoader))
