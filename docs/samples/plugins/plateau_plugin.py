# SPDX-License-Identifier: Apache-2.0
"""A sample plugin: suspends a TrainJob whose loss no longer falls. Its pods end, and the job can be resumed.

Users ask for it with an annotation of the TrainJob, `samples.trainwright.dev/plateau: "30"`: so many reports in a row
without a better loss are a plateau. In the manager's Configuration:

    plugins:
      enabled: [Plateau]
      settings:
        Plateau: {metric: eval_loss, betterBy: 0.001}

The manager tells when jobs begin and stop running, and a thread of the plugin looks at the progress of those that run.
It knows nothing of jobs that ran before the manager started; these are followed after their next resumption.
"""

import logging
import math
import threading
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.plugins.contract import JobState, Rule

ANNOTATION = "samples.trainwright.dev/plateau"
log = logging.getLogger(__name__)


class Settings(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The settings of the plugin in the Configuration."""

    metric: str = "loss"
    better_by: float = 0.0
    """A lower value counts as better if it is lower by more than this."""
    interval: float = 30.0
    """Seconds between two looks."""


@dataclass
class Plateau:
    """Decides from the reports of one job, in the order in which they come."""

    patience: int
    better_by: float
    best: float = math.inf
    without: int = 0
    """Reports since the best one."""
    last: str = ""
    """When the report was made that was taken in last."""

    def reached(self, time: str, value: float) -> bool:
        """Take in a report; returns whether the plateau is reached. The same report again changes nothing."""
        if time != self.last:
            self.last = time
            better = value < self.best - self.better_by or (math.isinf(self.best) and math.isfinite(value))
            self.without = 0 if better else self.without + 1
            self.best = value if better else self.best
        return self.without >= self.patience


class Jobs(Protocol):
    """What the plugin needs of a cluster."""

    def get(self, namespace: str, name: str) -> dict[str, Any] | None:
        """The TrainJob in wire form; None: it is deleted."""
        ...

    def suspend(self, namespace: str, name: str, version: str) -> bool:
        """Suspend it, unless it has changed since or is deleted. Returns whether it was suspended."""
        ...


class KubernetesJobs:
    """The cluster that the manager runs in, else that of the kubeconfig."""

    def __init__(self) -> None:
        from kubernetes import client, config  # noqa: PLC0415 - the import takes half a second

        self._error = client.ApiException
        try:
            config.load_incluster_config()  # type: ignore[no-untyped-call]
        except config.ConfigException:  # a manager outside of a cluster
            config.load_kube_config()  # type: ignore[no-untyped-call]
        self._api: Any = client.CustomObjectsApi()
        self._kind = {"group": "trainer.kubeflow.org", "version": "v1alpha1", "plural": "trainjobs"}

    def get(self, namespace: str, name: str) -> dict[str, Any] | None:
        """The TrainJob in wire form; None: it is deleted."""
        try:
            found: dict[str, Any] = self._api.get_namespaced_custom_object(
                **self._kind, namespace=namespace, name=name, _request_timeout=10
            )
        except self._error as error:
            if error.status == 404:
                return None
            raise
        return found

    def suspend(self, namespace: str, name: str, version: str) -> bool:
        """Suspend it, unless it has changed since or is deleted. Returns whether it was suspended."""
        body = {"metadata": {"resourceVersion": version}, "spec": {"suspend": True}}
        try:
            self._api.patch_namespaced_custom_object(
                **self._kind, namespace=namespace, name=name, body=body, _request_timeout=10
            )
        except self._error as error:
            if error.status in {404, 409}:
                return False
            raise
        return True


class PlateauPlugin:
    """Suspends jobs on a plateau."""

    name = "Plateau"
    off_by_default = True
    Configuration = Settings
    rules = (Rule.on(TrainJob.RESOURCE, "get", "patch"),)

    def __init__(self, settings: Settings) -> None:
        """Starts nothing; the thread begins with the first job."""
        self._settings = settings
        self._followed: dict[tuple[str, str], Plateau] = {}
        self._lock = threading.Lock()
        self._jobs: Jobs | None = None
        self._thread: threading.Thread | None = None

    def on_transition(self, job: TrainJob, new: JobState) -> None:
        """Begin or end to follow a job. Raises ValueError for an annotation that is no number."""
        annotations = job.metadata_or_empty.annotations or {}
        with self._lock:
            self._followed.pop((job.namespace, job.name), None)
            if new is not JobState.RUNNING or ANNOTATION not in annotations:
                return
            patience = max(1, int(annotations[ANNOTATION]))
            self._followed[job.namespace, job.name] = Plateau(patience, self._settings.better_by)
            if self._thread is None:
                self._thread = threading.Thread(target=self._follow, name="plateau", daemon=True)
                self._thread.start()

    def _follow(self) -> None:
        pause = threading.Event()
        while not pause.wait(self._settings.interval):
            self._look()

    def _look(self) -> None:
        """Look at each job once."""
        with self._lock:
            followed = list(self._followed.items())
        for (namespace, name), plateau in followed:
            try:
                self._look_at(namespace, name, plateau)
            except Exception as error:  # the API server is away; look again
                log.warning("TrainJob %s/%s: its plateau is not known: %s", namespace, name, error)

    def _look_at(self, namespace: str, name: str, plateau: Plateau) -> None:
        self._jobs = self._jobs or KubernetesJobs()
        job = self._jobs.get(namespace, name)
        if job is None:  # a deletion is no transition
            with self._lock:
                if self._followed.get((namespace, name)) is plateau:
                    del self._followed[namespace, name]
            return
        progress = job.get("status", {}).get("trainerStatus") or {}
        values = [one["value"] for one in progress.get("metrics", ()) if one["name"] == self._settings.metric]
        if not values or not plateau.reached(progress["lastUpdatedTime"], _number(values[0])):
            return
        if not self._jobs.suspend(namespace, name, job["metadata"]["resourceVersion"]):
            return  # the next look decides by what it finds then
        log.info(
            "TrainJob %s/%s is suspended: no %s below %g in %d reports",
            *(namespace, name, self._settings.metric, plateau.best, plateau.without),
        )


def _number(text: str) -> float:
    """The value; a text that is no number, and NaN, count as worse than any."""
    try:
        value = float(text)
    except ValueError:
        return math.inf
    return math.inf if math.isnan(value) else value
