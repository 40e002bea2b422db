# SPDX-License-Identifier: Apache-2.0
"""What views say of initializers that fetch."""

import pytest

from tests.builders import counts, progress, train_job
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.trainer.progress.report import percentage_of
from trainwright.controller.views.job import loading_of

MODEL = {"model_bytes": "62", "model_bytes_total": "100", "model_files": "3", "model_files_total": "8"}
DATA = {"dataset_bytes": "0", "dataset_bytes_total": "0", "dataset_files": "0", "dataset_files_total": "0"}


def job(metrics: dict[str, str], *ready: str) -> TrainJob:
    jobs = [counts(name, active=1, ready=1) for name in ready]
    return train_job(jobs=jobs, progress=progress(metrics=metrics))


@pytest.mark.parametrize(
    ("metrics", "ready", "text"),
    [
        (MODEL, ("model-initializer",), "loading model 62 %, 3 of 8 files"),
        (
            {**DATA, **MODEL},
            ("dataset-initializer", "model-initializer"),
            "loading data set 100 %, 0 of 0 files; loading model 62 %, 3 of 8 files",
        ),
        # What is left of its report does not count once it has ended, nor what it does not say.
        (MODEL, ("node",), ""),
        ({"loss": "1"}, ("model-initializer",), ""),
        ({**MODEL, "model_bytes": "many"}, ("model-initializer",), ""),
    ],
)
def test_bytes_and_files(metrics: dict[str, str], ready: tuple[str, ...], text: str) -> None:
    found = job(metrics, *ready)
    assert loading_of(found) == text
    assert percentage_of(found) is None
