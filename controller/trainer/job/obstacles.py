# SPDX-License-Identifier: Apache-2.0
"""The causes that keep a TrainJob from going on, and when they are shown.

A cause becomes the condition `Blocked` once it has lasted for five seconds. Shorter ones need no attention: a runtime
that is applied together with its job, an API server that restarts. When the cause is gone, the condition is removed,
not set to False. Only this process remembers how long a cause has lasted: after a restart the five seconds start again,
and an existing condition stays until they are over.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from trainwright.controller.runtime import Conflict, KubernetesError
from trainwright.controller.runtime.errors import ApiError, NotControlled
from trainwright.controller.trainer.build.runtimes import RuntimeMissing, RuntimeUnsupported, SnapshotInvalid
from trainwright.plugins.contract import FactUnavailable, Refusal
from trainwright.plugins.contract.errors import PipelineError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


class Reason(StrEnum):
    """Reasons of the condition `Blocked`."""

    RUNTIME_MISSING = "RuntimeMissing"
    SNAPSHOT_INVALID = "SnapshotInvalid"
    BUILD_FAILED = "BuildFailed"
    APPLY_REFUSED = "ApplyRefused"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One cause, in words for the users of the job."""

    reason: Reason
    message: str
    """What, where and what to do; the same text for the same cause."""
    error: Exception
    final: bool
    """Whether a retry is useless: the change that removes the cause starts a reconcile by itself."""
    defect: bool = False
    """Whether code of a plugin or of the manager is wrong: counted, and logged with its traceback."""


_SHOWN: dict[type[Exception], tuple[Reason, bool]] = {
    RuntimeMissing: (Reason.RUNTIME_MISSING, True),
    # Retry: a foreign ConfigMap is not watched, so its deletion starts no reconcile.
    SnapshotInvalid: (Reason.SNAPSHOT_INVALID, False),
    FactUnavailable: (Reason.BUILD_FAILED, False),
    PipelineError: (Reason.BUILD_FAILED, True),
    RuntimeUnsupported: (Reason.BUILD_FAILED, True),
    NotControlled: (Reason.APPLY_REFUSED, False),
    ApiError: (Reason.APPLY_REFUSED, False),
}
"""The reason that an error is shown with, and whether a retry is useless."""


def obstacle_of(error: Exception) -> Obstacle | None:
    """The obstacle to show for an error. None: retry and show nothing, as after a conflict or without an answer."""
    if isinstance(error, Conflict):
        return None
    for kind, (reason, final) in _SHOWN.items():
        if isinstance(error, kind):
            return Obstacle(reason, _told(error), error, final=final, defect=is_defect(error))
    if isinstance(error, KubernetesError):
        return None
    message = f"the manager failed at this TrainJob ({type(error).__name__}: {error}); see its log"
    return Obstacle(Reason.BUILD_FAILED, message, error, final=False, defect=True)


def _told(error: Exception) -> str:
    """The text of an error. For an answer of the API server, the object (`jobsets/mine`) replaces the request.

    A note before it names the plugin of others that built the object.
    """
    if not isinstance(error, ApiError):
        return str(error)
    path = error.request.partition(" ")[2].partition("?")[0]
    _, _, namespaced = path.partition("/namespaces/")
    _, _, what = namespaced.partition("/")
    notes = "".join(getattr(error, "__notes__", ()))
    return f"{notes}{what}: {error.message}" if what else str(error)


def is_defect(error: BaseException) -> bool:
    """Whether an error of the pipeline is a defect of a plugin, and not a refusal or a fact that could not be read."""
    if isinstance(error, FactUnavailable) and error.__cause__ is not None:
        # A build that depends on facts which nothing watches: it failed, and it is tried again for their sake.
        error = error.__cause__
    return isinstance(error, PipelineError) and not isinstance(error, Refusal)


class During(StrEnum):
    ADMISSION = "admission"
    RECONCILE = "reconcile"


class Defects:
    """Counts the defects that TrainJobs meet: code of a plugin or of the manager raised an error that is not declared.

    A defect costs one job a refusal or the condition `Blocked`, and no reconcile or webhook call fails because of it.
    The alert TrainwrightDefect therefore needs a counter of its own.
    """

    def __init__(self, registry: "CollectorRegistry") -> None:
        # Imported here: `trainwright render` needs `is_defect` alone.
        from trainwright.controller.runtime.metrics.series import LabelledCounter  # noqa: PLC0415

        text = "Defects of plugins or of the manager that TrainJobs met."
        self._met = LabelledCounter("trainer_trainjob_defects_total", text, registry, during=During)

    def met(self, during: During) -> None:
        self._met.inc(during)
