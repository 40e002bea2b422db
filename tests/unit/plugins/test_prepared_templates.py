# SPDX-License-Identifier: Apache-2.0
"""The templates of runtimes, prepared once for all jobs."""

from typing import Any

import pytest

from trainwright.api.jobset.v1alpha2 import JobSetSpec
from trainwright.api.trainer.v1alpha1 import TrainingRuntime
from trainwright.plugins.contract.container import Ledger
from trainwright.plugins.pipeline import template
from trainwright.plugins.pipeline.template import patched_template
from trainwright.plugins.testing import runtime


def spec_of(made: TrainingRuntime) -> JobSetSpec:
    assert made.spec is not None
    assert made.spec.template is not None
    assert made.spec.template.spec is not None
    return made.spec.template.spec


def rename(spec: JobSetSpec, name: str) -> None:
    assert spec.replicated_jobs is not None
    spec.replicated_jobs[0].name = name


def test_a_template_is_prepared_once_and_again_when_it_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = []

    def counted(base: JobSetSpec, *rest: Any) -> JobSetSpec:
        prepared.append(base)
        return patched_template(base, *rest)

    monkeypatch.setattr(template, "patched_template", counted)
    templates, made = template.Templates(), runtime()
    first, second = templates.of(made), templates.of(made)
    assert first == second == patched_template(spec_of(made), (), Ledger())
    assert len(prepared) == 1
    # Plugins change what they get; neither the next job nor the runtime may show it.
    rename(first, "mine")
    assert templates.of(made) == second
    rename(spec_of(made), "other")
    rename(second, "other")
    assert templates.of(made) == second
    assert len(prepared) == 2


def test_few_templates_are_kept() -> None:
    templates = template.Templates()
    runtimes = [runtime(metadata={"name": f"r-{n}"}) for n in range(template.PREPARED + 5)]
    for made in runtimes:
        templates.of(made)
    assert len(templates._prepared) == template.PREPARED
