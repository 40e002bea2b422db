# SPDX-License-Identifier: Apache-2.0
"""The one error of the test control plane: it says what failed, where, and what to do."""


class ControlPlaneError(RuntimeError):
    """A program could not be provided, started or kept running; the message ends with a way out or with log lines."""
