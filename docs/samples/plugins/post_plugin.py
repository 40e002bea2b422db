# SPDX-License-Identifier: Apache-2.0
"""A sample plugin: sends a POST request to a URL when a TrainJob enters one of some states, such as its end.

In the manager's Configuration:

    plugins:
      enabled: [Post]
      settings:
        Post: {url: "https://hooks.example.com/train", states: [Complete, Failed]}

A request that fails is logged by the manager and not repeated.
"""

import json
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.plugins.contract import JobState


class Settings(msgspec.Struct, forbid_unknown_fields=True):
    """The settings of the plugin in the Configuration."""

    url: str
    states: list[JobState] = msgspec.field(default_factory=lambda: [JobState.COMPLETE, JobState.FAILED])
    timeout: float = 5.0
    """Seconds; the manager waits ten."""
    token_file: str = ""
    """File with a token for the header Authorization, such as of a mounted Secret. Read for each request."""


class PostPlugin:
    """Tells a URL."""

    name = "Post"
    off_by_default = True
    Configuration = Settings

    def __init__(self, settings: Settings) -> None:
        """Raises ValueError for a URL that is not HTTP."""
        if urlsplit(settings.url).scheme not in {"http", "https"}:
            raise ValueError(f"url: {settings.url!r} must begin with http:// or https://")
        self._settings = settings

    def on_transition(self, job: TrainJob, old: JobState, new: JobState) -> None:
        """Send one request; what goes wrong is raised."""
        if new not in self._settings.states:
            return
        headers = {"Content-Type": "application/json"}
        if self._settings.token_file:
            headers["Authorization"] = f"Bearer {Path(self._settings.token_file).read_text('utf-8').strip()}"
        body = json.dumps(_told(job, old, new)).encode()
        # The constructor has checked the scheme.
        request = urllib.request.Request(self._settings.url, body, headers, method="POST")  # noqa: S310
        with urllib.request.urlopen(request, timeout=self._settings.timeout):  # noqa: S310
            pass


def _told(job: TrainJob, old: JobState, new: JobState) -> dict[str, object]:
    # What is absent is read as empty: job.status_or_empty needs no check for None.
    status = job.status_or_empty
    condition = next((one for one in status.conditions or () if one.type == new), None)
    return {
        "namespace": job.namespace,
        "name": job.name,
        "uid": job.metadata_or_empty.uid,
        "from": old,
        "to": new,
        "reason": condition.reason if condition is not None else "",
        "message": condition.message if condition is not None else "",
        "progressPercentage": status.trainer_status_or_empty.progress_percentage,
    }
