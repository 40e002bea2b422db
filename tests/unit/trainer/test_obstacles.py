# SPDX-License-Identifier: Apache-2.0
"""What is shown of an error, and in how many words."""

import pytest

from tests.cases import cases
from trainwright.controller.runtime.errors import (
    Conflict,
    ConnectionLost,
    Forbidden,
    NotControlled,
    ServerError,
    Unreachable,
)
from trainwright.controller.trainer.build.runtimes import RuntimeMissing, RuntimeUnsupported, SnapshotInvalid
from trainwright.controller.trainer.job.obstacles import (
    Reason,
    obstacle_of,
)
from trainwright.plugins.contract import FactUnavailable, Refusal
from trainwright.plugins.contract.errors import PluginFailure

CASES = cases(__file__)


@pytest.mark.parametrize(
    ("error", "reason", "final"),
    [
        (RuntimeMissing("m"), Reason.RUNTIME_MISSING, True),
        (RuntimeUnsupported("m"), Reason.BUILD_FAILED, True),
        (Refusal("m"), Reason.BUILD_FAILED, True),
        (FactUnavailable("m"), Reason.BUILD_FAILED, False),
        (SnapshotInvalid("m"), Reason.SNAPSHOT_INVALID, False),
        (NotControlled("m"), Reason.APPLY_REFUSED, False),
        (Forbidden("m", code=403), Reason.APPLY_REFUSED, False),
        (ServerError("m", code=500), Reason.APPLY_REFUSED, False),
    ],
)
def test_what_is_shown_of_an_error(error: Exception, reason: Reason, final: bool) -> None:
    obstacle = obstacle_of(error)
    assert obstacle is not None
    assert (obstacle.reason, obstacle.message, obstacle.final, obstacle.defect) == (reason, "m", final, False)


def test_a_failing_plugin_is_a_defect_and_a_refusing_one_is_not() -> None:
    failed, refused = obstacle_of(PluginFailure("m")), obstacle_of(Refusal("m"))
    assert failed is not None
    assert refused is not None
    assert (failed.reason, failed.final, failed.defect) == (Reason.BUILD_FAILED, True, True)
    assert (refused.reason, refused.final, refused.defect) == (Reason.BUILD_FAILED, True, False)


@pytest.mark.parametrize("error", [Conflict("m", code=409), Unreachable("m"), ConnectionLost("m")])
def test_what_is_not_shown(error: Exception) -> None:
    assert obstacle_of(error) is None


def test_an_error_that_nobody_foresaw_is_shown_and_logged_with_its_traceback() -> None:
    obstacle = obstacle_of(KeyError("x"))
    assert obstacle is not None
    assert (obstacle.reason, obstacle.defect) == (Reason.BUILD_FAILED, True)
    assert obstacle.message == "the manager failed at this TrainJob (KeyError: 'x'); see its log"


def test_an_answer_about_an_object_of_a_plugin_names_the_plugin() -> None:
    error = Forbidden("denied", code=403, request="post /api/v1/namespaces/ns/services")
    error.add_note("plugin Ray: ")
    obstacle = obstacle_of(error)
    assert obstacle is not None
    assert obstacle.message == "plugin Ray: services: denied"


@pytest.mark.parametrize(("request_line", "told"), CASES["an_answer_names_the_object_and_not_the_request"])
def test_an_answer_names_the_object_and_not_the_request(request_line: str, told: str) -> None:
    obstacle = obstacle_of(Forbidden("denied", code=403, request=request_line))
    assert obstacle is not None
    assert obstacle.message == told
