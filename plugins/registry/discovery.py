# SPDX-License-Identifier: Apache-2.0
"""Finding plugins: the built-in ones, and the entry points `trainwright.plugins` of installed distributions.

The built-in ones are listed here and not found through entry points, so that a broken installation cannot lose one.
Their modules are imported when the registry is built. A plugin that cannot be imported is reported by name and never
skipped.
"""

import importlib
import importlib.metadata
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import trainwright

BUILT_IN: Mapping[str, str] = {
    "CoScheduling": "trainwright.plugins.coscheduling:CoSchedulingPlugin",
    "Flux": "trainwright.plugins.flux:FluxPlugin",
    "JAX": "trainwright.plugins.jax:JAXPlugin",
    "JobSet": "trainwright.plugins.jobset:JobSetPlugin",
    "MPI": "trainwright.plugins.mpi:MPIPlugin",
    "PlainML": "trainwright.plugins.plainml:PlainMLPlugin",
    "ProgressFile": "trainwright.plugins.progressfile:ProgressFilePlugin",
    "Recovery": "trainwright.plugins.recovery:RecoveryPlugin",
    "Torch": "trainwright.plugins.torch:TorchPlugin",
    "TrainJobStatus": "trainwright.plugins.trainjobstatus:TrainJobStatusPlugin",
    "Volcano": "trainwright.plugins.volcano:VolcanoPlugin",
    "XGBoost": "trainwright.plugins.xgboost:XGBoostPlugin",
}
"""Plugin name to `module:class`. The names are those of Kubeflow Trainer, so that its Configuration keeps working."""


ENTRY_POINTS = "trainwright.plugins"
"""The group of entry points. The name of an entry point is the name of its plugin; its value is the class."""
OURSELVES = "trainwright"


@dataclass(frozen=True, slots=True)
class PluginCandidate:
    name: str
    target: str
    """`module:class`."""
    distribution: str
    version: str

    def __str__(self) -> str:
        return f"plugin {self.name} (distribution {self.distribution} {self.version})"

    def load(self) -> Any:
        """The object that `target` names. Raises what the import raises."""
        module, _, attribute = self.target.partition(":")
        found: Any = importlib.import_module(module)
        for part in attribute.split(".") if attribute else ():
            found = getattr(found, part)
        return found


def built_in(catalogue: Mapping[str, str] = BUILT_IN) -> list[PluginCandidate]:
    return [
        PluginCandidate(name, target, OURSELVES, trainwright.__version__) for name, target in sorted(catalogue.items())
    ]


def installed(entry_points: Iterable[importlib.metadata.EntryPoint] | None = None) -> list[PluginCandidate]:
    """The plugins of other distributions, by name and then by distribution."""
    if entry_points is None:
        entry_points = _entry_points(tuple(sys.path))
    found = [_candidate(entry_point) for entry_point in entry_points]
    return sorted(found, key=lambda candidate: (candidate.name, candidate.distribution))


@lru_cache(maxsize=4)
def _entry_points(_path: tuple[str, ...]) -> tuple[importlib.metadata.EntryPoint, ...]:
    """Those of all distributions on the path. Remembered: each of them is opened, and few are installed meanwhile."""
    return tuple(importlib.metadata.entry_points(group=ENTRY_POINTS))


def _candidate(entry_point: importlib.metadata.EntryPoint) -> PluginCandidate:
    distribution = entry_point.dist
    return PluginCandidate(
        name=entry_point.name,
        target=entry_point.value.partition("[")[0].strip(),
        distribution=distribution.name if distribution is not None else "unknown",
        version=distribution.version if distribution is not None else "unknown",
    )
