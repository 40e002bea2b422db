# SPDX-License-Identifier: Apache-2.0
"""Records the picture of each seeded fault, as the real control plane shows it, for tests that need none.

    python -m tests.e2e.faults.record

The pictures are in tests/unit/trainer/explain/recorded, with the sentence that was said. Record them again when a check
asks for other objects.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.e2e.test_explain import FAULTS, Told, all_told, everything
from tests.repository import ROOT
from trainwright.api.times import format_time
from trainwright.plugins.contract.picture import NOT_SERVED, Picture

FOLDER = ROOT / "tests" / "unit" / "trainer" / "explain" / "recorded"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with everything() as control_plane:
        answers = asyncio.run(all_told(control_plane, FAULTS.keys()))
    for number, answer in answers.items():
        if isinstance(answer, BaseException):
            raise answer
        write(FOLDER / f"{int(number):02}.json", answer)


def write(file: Path, told: Told) -> None:
    """Keep one picture, with what it says."""
    picture, explanation = told
    text = json.dumps(
        {
            "sentence": explanation.cause.message,
            "reason": explanation.cause.reason,
            "outcome": str(explanation.outcome),
            "now": format_time(picture.now),
            "unserved": unserved(picture),
            "objects": objects(picture),
        },
        indent=1,
        ensure_ascii=False,
    )
    # Namespaces have random names.
    file.write_text(text.replace(picture.namespace, "n") + "\n", encoding="utf-8")


def unserved(picture: Picture) -> list[str]:
    """The API groups that the cluster did not have."""
    return sorted({query.resource.group for query, answer in picture.answered.items() if answer is NOT_SERVED})


def objects(picture: Picture) -> list[dict[str, Any]]:
    """The job, and every object that a check has seen, once."""
    found = {"": picture.job}
    for answer in picture.answered.values():
        for obj in answer if isinstance(answer, tuple) else ():
            if obj.get("metadata", {}).get("uid"):
                found.setdefault(obj["metadata"]["uid"], obj)
    found.pop(picture.job["metadata"]["uid"], None)
    return [without_history(obj) for obj in found.values()]


def without_history(obj: dict[str, Any]) -> dict[str, Any]:
    """The object without the fields that no check reads and that change with every run."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in ("managedFields", "resourceVersion")}
    return {**obj, "metadata": metadata}


if __name__ == "__main__":
    main()
