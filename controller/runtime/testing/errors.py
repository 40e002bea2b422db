# SPDX-License-Identifier: Apache-2.0
"""Errors of the test control plane: what failed, where, and what to do."""


class ControlPlaneError(RuntimeError):
    """A program is missing, does not start, or has ended. The message ends with what to do or with log lines."""


class PortTakenError(ControlPlaneError):
    """A program ended because another one uses its port."""

    def __init__(self, program: str, message: str) -> None:
        super().__init__(message)
        self.program = program
