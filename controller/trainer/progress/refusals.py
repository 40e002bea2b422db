# SPDX-License-Identifier: Apache-2.0
"""Why a report is not accepted, beside its token: each reason with its answer over HTTP.

Codes, reasons and fixed texts are those of Kubeflow Trainer.
"""

from typing import ClassVar


class Refused(Exception):  # noqa: N818 - the answer that a client gets
    """A report that is not accepted. The text is the message of the answer."""

    code: ClassVar[int]
    reason: ClassVar[str]

    @property
    def retry_after(self) -> int | None:
        """Seconds after which the client may try again; None: it is not told."""
        return None


class MalformedReport(Refused):
    """It is not JSON, or a value has another type."""

    code = 422
    reason = "Invalid"

    def __init__(self) -> None:
        super().__init__("Invalid payload")


class InvalidReport(Refused):
    """The schema of a TrainJob does not allow it."""

    code = 422
    reason = "Invalid"


class UnknownJob(Refused):
    """There is no TrainJob of this name."""

    code = 404
    reason = "NotFound"

    def __init__(self) -> None:
        super().__init__("Train job not found")


class TooManyReports(Refused):
    """The TrainJob reports too often."""

    code = 429
    reason = "TooManyRequests"

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"Too many reports of this TrainJob; report again in {retry_after} seconds")
        self._retry_after = retry_after

    @property
    def retry_after(self) -> int | None:
        """Seconds."""
        return self._retry_after
