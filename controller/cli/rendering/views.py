# SPDX-License-Identifier: Apache-2.0
"""Where a rendered TrainJob finds existing objects: nowhere (files only), or in a cluster (`rendering.cluster`)."""

from collections.abc import Iterable
from typing import Protocol

from trainwright.api.objects import Document
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.plugins.contract import OFFLINE, ClusterFacts, Component, Reference, Runtime
from trainwright.plugins.pipeline import FactReader


class ExistingObjects(FactReader, Protocol):
    """Gives runtimes that no file has, the stored TrainJob, and facts for plugins."""

    advice: str
    """What to do about a runtime that was not found."""

    async def job(self, job: TrainJob) -> TrainJob | None:
        """The stored TrainJob of that name."""
        ...

    async def runtime(self, job: TrainJob) -> Runtime | None:
        """The runtime that the job names."""
        ...

    async def difference(self, component: Component) -> tuple[Document | None, Document]:
        """The object as it is (None if it is new), and as it would be after applying."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


class FilesOnly:
    """There is no cluster: nothing exists, and every fact counts as absent."""

    advice = "give its file with --runtime"

    async def job(self, job: TrainJob) -> None:
        """None."""

    async def runtime(self, job: TrainJob) -> None:
        """None; the runtimes of files are known already."""

    async def read(self, references: Iterable[Reference]) -> ClusterFacts:  # noqa: ARG002 - the view's
        """Every object counts as absent, and no job is refused because of that."""
        return OFFLINE

    async def difference(self, component: Component) -> tuple[None, Document]:
        return None, component.document

    async def close(self) -> None:
        """Nothing to close."""
