# SPDX-License-Identifier: Apache-2.0
"""The TrainJobs that the dashboard shows, as its page reads them, and how it stands with the API server."""

from trainwright.api.objects import Key, wire
from trainwright.api.times import format_time
from trainwright.controller.dashboard import contract
from trainwright.controller.dashboard.details import row_of
from trainwright.controller.runtime import Client
from trainwright.controller.views.explanation import reference
from trainwright.controller.views.parameters import options_of
from trainwright.controller.views.reports import KeptReports
from trainwright.controller.views.watch import HeldJob, OutputOf, WatchedJobs


class ShownJobs(WatchedJobs):
    """The jobs of one namespace, or of all (empty)."""

    def __init__(
        self, client: Client, cluster: contract.Cluster, reports: KeptReports, output_of: OutputOf | None = None
    ) -> None:
        super().__init__(client, cluster.namespace, reports=reports, output_of=output_of)
        self.reports = reports
        self.cluster = cluster
        self._options: dict[str, tuple[int | None, dict[str, str]]] = {}
        self.is_closing = False
        """The dashboard stops: streams say so and end."""
        self.connection = contract.Connection(
            state="connecting", message="", since=format_time(self.now()), last_contact=None
        )

    def close(self) -> None:
        """Let all streams end."""
        self.is_closing = True
        for subscriber in self._subscribers:
            subscriber.wake.set()

    def set_connection(self, connection: contract.Connection) -> None:
        is_news = (connection.state, connection.message) != (self.connection.state, self.connection.message)
        self.connection = connection
        if is_news:
            for subscriber in self._subscribers:
                subscriber.connection = True
                subscriber.wake.set()

    def row_of(self, held: HeldJob) -> contract.JobRow:
        return row_of(self.view(held, self.now()), self._parameters(held))

    def _parameters(self, held: HeldJob) -> dict[str, str]:
        """Of the spec, which seldom changes, while reports come all the time."""
        generation = held.job.metadata_or_empty.generation
        known = self._options.get(held.uid)
        if known is None or known[0] != generation:
            known = self._options[held.uid] = generation, options_of(wire(held.job))
        return known[1]

    def _forget(self, uid: str) -> None:
        super()._forget(uid)
        self._options.pop(uid, None)

    def snapshot(self) -> contract.JobList:
        return contract.JobList(
            now=format_time(self.now()),
            cluster=self.cluster,
            connection=self.connection,
            jobs=[self.row_of(held) for held in self._jobs.values()],
            undecodable=[reference(key) for key in self._undecodable],
        )

    def rows(self, changed: set[Key], deleted: set[Key]) -> contract.Rows:
        found = [self.row_of(held) for key in changed if (held := self.held(key)) is not None]
        return contract.Rows(
            now=format_time(self.now()), changed=found, deleted=[reference(key) for key in sorted(deleted)]
        )
