# SPDX-License-Identifier: Apache-2.0
"""What TrainJobStatus watches and previews; tests/conformance/renderings has the rest."""

from typing import Any

import pytest

from tests.unit.plugins.blueprints import blueprint
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import ConfigMap, Secret
from trainwright.plugins.contract import ClusterFacts, Enqueue, Installation, Reference, Watch
from trainwright.plugins.contract.facts import Unreadable
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry, Selection, built_in
from trainwright.plugins.testing import train_job
from trainwright.plugins.trainjobstatus import PLACEHOLDER, TrainJobStatusPlugin

AT = Installation(host="trainer.ops.svc", port=1234, namespace="ops", secret="cert")
PIPELINE = Pipeline(
    Registry.load(Selection(enabled=frozenset({"TrainJobStatus"})), candidates=built_in(), installation=AT)
)
SECRET = Reference(Secret.RESOURCE, "ops", "cert")
CONFIG_MAP = Reference(ConfigMap.RESOURCE, "team", "job-tls-config")
JOBSET = Reference(JobSet.RESOURCE, "team", "job")


def test_a_preview_shows_a_placeholder_or_the_stored_certificates() -> None:
    run = PIPELINE.begin(train_job(), blueprint({"numNodes": 1}))

    def shown(stored: Any) -> Any:
        objects = {SECRET: Unreadable("forbidden"), CONFIG_MAP: stored, JOBSET: None}
        components = run.render(ClusterFacts(objects, preview=True)).components
        return next(one.document["data"] for one in components if one.resource.kind == "ConfigMap")

    assert shown(None) == {"ca.crt": PLACEHOLDER}
    assert shown({"metadata": {"name": "job-tls-config"}, "data": {"ca.crt": "OLD"}}) == {"ca.crt": "OLD"}


def test_the_secret_is_watched_by_name_for_all_unfinished_jobs() -> None:
    watched = Watch(Secret.RESOURCE, Enqueue.UNFINISHED, model=Secret, name="cert", namespace="ops")
    assert watched in TrainJobStatusPlugin(installation=AT).watches()


def test_a_process_with_a_certificate_of_its_own_needs_no_secret() -> None:
    at = Installation(host="127.0.0.1", port=5, authority="OWN")
    pipeline = Pipeline(Registry.of(TrainJobStatusPlugin(installation=at)))
    run = pipeline.begin(train_job(), blueprint({"numNodes": 1}))
    assert run.references() == ()
    (component,) = run.render(ClusterFacts()).components
    assert component.document["data"] == {"ca.crt": "OWN"}
    assert [watch.resource for watch in TrainJobStatusPlugin(installation=at).watches()] == [ConfigMap.RESOURCE]


def test_a_single_object_is_watched_for_all_jobs_only() -> None:
    with pytest.raises(ValueError, match="watch of Secret cert"):
        Watch(Secret.RESOURCE, name="cert", namespace="ops")
