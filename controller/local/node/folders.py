# SPDX-License-Identifier: Apache-2.0
"""Where the files of a container lie."""

from dataclasses import dataclass
from pathlib import Path

from trainwright.api.objects import Document, name_of, namespace_of, uid_of
from trainwright.controller.local.node.plan import Places


@dataclass(frozen=True, slots=True)
class Folders:
    """Where one container's files lie."""

    container: Path
    """Working folder, termination message, record of the process."""
    logs: Path
    """One log file per run."""
    temporary: Path

    def places(self) -> Places:
        """The places that a plan names."""
        return Places(
            work=self.container / "work",
            temporary=self.temporary,
            termination=self.container / "termination-log",
            programs=self.container / "bin",
        )

    def log(self, run: int) -> Path:
        """The log file of a run; runs count from 0."""
        return self.logs / f"{run}.log"


def log_folder(root: Path, pod: Document, container: str) -> Path:
    """Where the logs of a container lie: `<namespace>_<pod>_<uid>/<container>`, as on any node."""
    return root / f"{namespace_of(pod)}_{name_of(pod)}_{uid_of(pod)}" / container
