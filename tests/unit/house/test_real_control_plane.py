# SPDX-License-Identifier: Apache-2.0
"""How many tests need the real control plane, and why. A number may rise only for what the local server lacks."""

import re
from collections import Counter

from tests import skips
from tests.repository import ROOT

MARK = re.compile(r'pytest\.mark\.real_control_plane\("([^"]+)"\)')
MOST = {
    "Kueue": 1,
    "scheduler-plugins": 1,
    "kubectl": 16,
    "Deployments": 4,
    "the whole chain": 3,
    "kubelet": 3,
    "S3": 1,
    "OIDC": 2,
    "JobSet's manager": 4,
    "starts and stops it": 3,
    "the real controllers": 1,
    "foreign client certificates": 1,
    "webhooks behind Services": 2,
    "CronJobs": 1,
    "Pod Security": 1,
    "compares with it": 5,
}
"""Of functions and modules."""


def test_marks_are_counted() -> None:
    texts = [path.read_text() for path in (ROOT / "tests").rglob("*.py") if path.name != "test_local_control_plane.py"]
    found = Counter(reason for text in texts for reason in MARK.findall(text))
    assert found == MOST


def test_each_reason_may_be_left_out_and_no_other() -> None:
    prefix = "real control plane: "
    assert {reason.removeprefix(prefix) for reason in skips.listed() if reason.startswith(prefix)} == set(MOST)
