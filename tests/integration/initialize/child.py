# SPDX-License-Identifier: Apache-2.0
"""One run in a process of its own, without waiting: OpenDAL keeps its connections until the process ends."""

import asyncio
import json
import os
import sys
from pathlib import Path

from tests.unit.initialize.runs import initialize

if __name__ == "__main__":
    outcome = asyncio.run(initialize(sys.argv[1], Path(sys.argv[2]), "dataset", os.environ))
    json.dump({"word": outcome.word, "sentence": outcome.sentence, "lines": outcome.lines}, sys.stdout)
