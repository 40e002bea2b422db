# SPDX-License-Identifier: Apache-2.0
"""Schemas in the local cluster's API server: what pruning, defaulting and validating a JobSet costs.

The best of several rounds is printed, in milliseconds of CPU time, beside the same checks by `jsonschema`, which knows
neither list types nor the texts of the server. An update compares with the stored object, and a TrainJob has rules.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import msgspec

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.apply import copied, jobset
from trainwright.api.manifest import load
from trainwright.controller.local.apiserver.schema import compile_schema
from trainwright.controller.runtime.testing.build import provide

CALLS = 200


def milliseconds(work: Callable[[Any], object], make: Callable[[], Any], rounds: int) -> float:
    """CPU time of one call, the best of several rounds; making the argument is not counted."""
    best = float("inf")
    for _ in range(rounds):
        given = [make() for _ in range(CALLS)]
        start = time.process_time()
        for one in given:
            work(one)
        best = min(best, (time.process_time() - start) / CALLS)
    return best * 1e3


def openapi(crd: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds

    jobsets = openapi(load(provide(["jobset-manager"]).manifests["jobset-crd.yaml"].read_text(encoding="utf-8")))
    start = time.process_time()
    schema = compile_schema(jobsets)
    schema.validate(jobset())
    print(f"compile the schema of JobSet           {(time.process_time() - start) * 1e3:8.1f}")

    encoded = msgspec.json.encode(jobset())
    bare = milliseconds(copied, jobset, rounds)
    print(f"decode and encode                      {bare:8.3f}   ratio to it")

    def made() -> Any:
        return msgspec.json.decode(encoded)

    def whole(document: Any) -> None:
        schema.decode(document)
        schema.validate(document)

    stored = made()
    schema.decode(stored)
    changed = {**copied(stored), "spec": {**copied(stored)["spec"], "suspend": True}}
    wrong = copied(stored)
    wrong["spec"]["replicatedJobs"][1]["template"]["spec"]["parallelism"] = "four"
    for title, work, make in (
        ("prune", schema.prune, made),
        ("default", schema.default, made),
        ("validate", schema.validate, lambda: stored),
        ("prune, default and validate", whole, made),
        ("validate an update", lambda new: schema.validate(new, stored), lambda: changed),
        ("validate an update that is wrong", lambda new: schema.validate(new, stored), lambda: wrong),
    ):
        took = milliseconds(work, make, rounds)
        print(f"{title:38} {took:8.3f} {took / bare:8.1f}")

    validator = jsonschema.Draft202012Validator(jobsets)
    slow = milliseconds(lambda document: list(validator.iter_errors(document)), lambda: stored, 1)
    print(f"{'jsonschema: validate':38} {slow:8.3f} {slow / bare:8.1f}")

    trainjobs = compile_schema(_trainjobs())
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "job", "namespace": "n"},
        "spec": {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 2}, "suspend": False},
    }
    trainjobs.decode(job)
    assert trainjobs.validate(job, job) == []
    print(f"validate a TrainJob, with its rules    {milliseconds(trainjobs.validate, lambda: job, rounds):8.3f}")


def _trainjobs() -> dict[str, Any]:
    path = Path(__file__).resolve().parents[2] / "config/crd/trainer.kubeflow.org_trainjobs.yaml"
    return openapi(load(path.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
