# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: ARG002 - hooks have the parameters of the contract
"""What counts as a defect, and that admission counts and logs those of plugins."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.trainer.admission.trainjobs import TrainJobAdmission
from trainwright.controller.trainer.job.obstacles import Defects, is_defect
from trainwright.plugins.contract import (
    ClusterFacts,
    FactUnavailable,
    Finding,
    Info,
    Reference,
    Refusal,
    Runtime,
    invalid,
)
from trainwright.plugins.contract.errors import DuplicateObject, InputMutated, PluginFailure
from trainwright.plugins.contract.facts import Unreadable
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry
from trainwright.plugins.testing import runtime, train_job


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "defect"),
    [
        (PluginFailure("m"), True),
        (InputMutated("m"), True),
        (DuplicateObject("m"), True),
        (Refusal("m"), False),
        (caused(Refusal("cpu is no quantity"), ValueError("x")), False),
        (FactUnavailable("m"), False),
        (caused(FactUnavailable("m"), PluginFailure("m")), True),
        (caused(FactUnavailable("m"), Refusal("m")), False),
    ],
)
def test_a_defect_is_what_a_plugin_did_not_mean_to_raise(error: Exception, defect: bool) -> None:
    assert is_defect(error) is defect


FACT = Reference(ConfigMap.RESOURCE, "", "fact")


class Plugin:
    name = "Broken"

    def uses_facts(self, job: TrainJob, runtime: Runtime) -> Iterable[Reference]:
        return [FACT]


class FailsAtOnce(Plugin):
    def uses_facts(self, job: TrainJob, runtime: Runtime) -> Iterable[Reference]:
        raise KeyError("gone")


class Fails(Plugin):
    def validate(self, info: Info, old: TrainJob | None, job: TrainJob) -> Iterable[Finding]:
        raise KeyError("gone")


class Refuses(Plugin):
    def validate(self, info: Info, old: TrainJob | None, job: TrainJob) -> Iterable[Finding]:
        yield invalid("spec", None, "no")


class NeedsFact(Plugin):
    def validate(self, info: Info, old: TrainJob | None, job: TrainJob) -> Iterable[Finding]:
        info.facts.find(FACT)
        return ()


READABLE = ClusterFacts({FACT: None})
UNREADABLE = ClusterFacts({FACT: Unreadable("the API server is away")})


@pytest.mark.parametrize(
    ("plugin", "facts", "counted"),
    [
        pytest.param(FailsAtOnce(), READABLE, 1, id="fails-at-facts"),
        pytest.param(Fails(), READABLE, 1, id="fails-at-validation"),
        pytest.param(Refuses(), READABLE, 0, id="refuses"),
        pytest.param(NeedsFact(), UNREADABLE, 0, id="a-fact-that-cannot-be-read"),
    ],
)
async def test_admission_counts_defects_of_plugins(
    plugin: Any, facts: ClusterFacts, counted: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def read(references: Iterable[Reference]) -> ClusterFacts:
        return facts

    registry = CollectorRegistry()
    unused: Any = None
    reader: Any = SimpleNamespace(read=read)
    runtimes: Any = SimpleNamespace(of=lambda _: runtime())
    pipeline = Pipeline(Registry.of(plugin))
    admission = TrainJobAdmission(unused, unused, pipeline, reader, runtimes, unused, Defects(registry))
    request: Any = SimpleNamespace(new=train_job(), old=None)
    answer = await admission.validate(request)
    assert answer.errors
    assert registry.get_sample_value("trainer_trainjob_defects_total", {"during": "admission"}) == counted
    assert registry.get_sample_value("trainer_trainjob_defects_total", {"during": "reconcile"}) == 0
    logged = [record.getMessage() for record in caplog.records if "refused because of a defect" in record.getMessage()]
    assert len(logged) == counted
    assert all("plugin Broken" in line and "KeyError: 'gone'" in line for line in logged)
