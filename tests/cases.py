# SPDX-License-Identifier: Apache-2.0
"""Cases of tests as data: a JSON file beside the test file, with a list of cases for each test."""

import json
from pathlib import Path
from typing import Any


def cases(test_file: str) -> dict[str, Any]:
    """The cases of a file of tests, by the name of the test without `test_`; one line is one case.

    Args:
        test_file: `__file__` of the tests; the cases are in the file of the same name that ends in `.json`.
    """
    found: dict[str, Any] = json.loads(Path(test_file).with_suffix(".json").read_text(encoding="utf-8"))
    return found
