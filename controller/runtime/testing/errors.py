# SPDX-License-Identifier: Apache-2.0
"""The errors of the test control plane: they say what failed, where, and what to do."""


class ControlPlaneError(RuntimeError):
    """A program could not be provided, started or kept running; the message ends with a way out or with log lines."""


class PortTakenError(ControlPlaneError):
    """A program ended because another one listens on its port."""

    def __init__(self, program: str, message: str) -> None:
        super().__init__(message)
        self.program = program
