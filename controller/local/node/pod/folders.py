# SPDX-License-Identifier: Apache-2.0
"""The folders of a node: made at its start, removed with a pod; and where the files of a container lie."""

import logging
from dataclasses import dataclass
from pathlib import Path

from trainwright.api.objects import Document, name_of, namespace_of, uid_of
from trainwright.controller.local.node.files import remove
from trainwright.controller.local.node.plan.plan import Places
from trainwright.controller.local.node.pod.ended import remove_logs
from trainwright.controller.local.node.settings import NodeSettings

log = logging.getLogger(__name__)


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


def make_folders(settings: NodeSettings) -> None:
    """Make the folders of a node, for its user alone. Blocks."""
    for folder in (settings.folder, settings.pods, settings.logs):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def remove_pod(settings: NodeSettings, uid: str, pod: Document | None = None) -> None:
    """Remove what a pod left: its folder, and its logs unless an owner keeps them; see `ended`. Blocks.

    `pod` is the pod as it was last, where that is known.
    """
    try:
        remove(settings.pods / uid)
        remove_logs(settings.logs, uid, pod)
    except OSError as error:
        log.warning("files of the pod with uid %s are left: %s", uid, error)
    except Exception:
        # Raised in a task of the node, it would end all pods.
        log.exception("files of the pod with uid %s are left", uid)
