# SPDX-License-Identifier: Apache-2.0
"""Random reports, most of them wrong; `make soak` sends many more."""

from pathlib import Path

from tests.integration.trainer.bad_reports import bombard


async def test_each_random_report_gets_an_answer_and_nothing_wrong_is_accepted(tmp_path: Path) -> None:
    codes, wrong, outcomes = await bombard(tmp_path, seed=18, reports=400)
    assert not wrong, "\n".join(wrong[:20])
    assert {200, 400, 403, 404, 413, 422} <= codes.keys(), codes
    assert outcomes["stored"] > 10
    assert outcomes["refused"] == outcomes["failed"] == 0, outcomes
