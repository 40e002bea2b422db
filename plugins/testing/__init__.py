# SPDX-License-Identifier: Apache-2.0
"""Run a plugin on a TrainJob and a runtime in a few lines, without a cluster.

    from trainwright.plugins.testing import run, runtime, train_job

    result = run(MyPlugin(), job=train_job("trainer: {numNodes: 2}"), runtime=runtime())
    assert result.env("node")["MY_NODES"] == "2"

`run` does what the manager does: the registry with its checks, all phases, and the JobSet plugin. `transition` tells a
plugin with `on_transition` that a job has changed its state.
"""

from trainwright.plugins.testing.results import (
    RUNTIME,
    Result,
    in_state,
    replicated_job,
    run,
    runtime,
    runtime_document,
    train_job,
    transition,
)

__all__ = [
    "RUNTIME",
    "Result",
    "in_state",
    "replicated_job",
    "run",
    "runtime",
    "runtime_document",
    "train_job",
    "transition",
]
