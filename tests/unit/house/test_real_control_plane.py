# SPDX-License-Identifier: Apache-2.0
"""How many tests need the real control plane, and why. A number may rise only for what the local server lacks."""

import re
from collections import Counter

from tests.repository import ROOT

MARK = re.compile(r'pytest\.mark\.real_control_plane\("([^"]+)"\)')
MOST = {
    "RBAC": 11,
    "Deployments": 4,
    "OIDC": 2,
    "foreign client certificates": 1,
    "kubelet": 2,
    "webhooks behind Services": 1,
    "CronJobs": 1,
    "Pod Security": 1,
    "compares with it": 1,
}


def test_marks_are_counted() -> None:
    texts = [path.read_text() for path in (ROOT / "tests").rglob("*.py") if path.name != "test_local_control_plane.py"]
    found = Counter(reason for text in texts for reason in MARK.findall(text))
    assert found == MOST
