# SPDX-License-Identifier: Apache-2.0
"""What the trainer container runs: image, command and arguments of the TrainJob, as plugins have rewritten them.

Some frameworks start the user's command through a wrapper. They cannot change the TrainJob, which is an input, and what
they write into the container would be replaced by the TrainJob's values. So they change the values here, which the
builder writes into the container.
"""

from trainwright.api.trainer.v1alpha1 import Trainer
from trainwright.plugins.contract.provenance import Ledger


class TrainerSettings:
    """None keeps the runtime's value; an empty list clears it."""

    __slots__ = ("_args", "_command", "_image", "_ledger", "_why")

    def __init__(self, trainer: Trainer, ledger: Ledger) -> None:
        self._ledger = ledger
        self._image = trainer.image
        self._command = _copied(trainer.command)
        self._args = _copied(trainer.args)
        self._why: dict[str, tuple[str, str]] = {}

    @property
    def image(self) -> str | None:
        """The image of the TrainJob."""
        return self._image

    @property
    def command(self) -> tuple[str, ...] | None:
        """The command of the TrainJob, or the one that a plugin set."""
        return None if self._command is None else tuple(self._command)

    @property
    def args(self) -> tuple[str, ...] | None:
        """The arguments of the TrainJob, or those that a plugin set."""
        return None if self._args is None else tuple(self._args)

    def set_command(self, command: list[str], *, why: str) -> None:
        self._command = list(command)
        self._why["command"] = (self._ledger.plugin, why)

    def set_args(self, args: list[str] | None, *, why: str) -> None:
        """Replace the arguments; None keeps those of the runtime."""
        self._args = _copied(args)
        self._why["args"] = (self._ledger.plugin, why)

    def origin(self, what: str) -> tuple[str, str] | None:
        """The plugin that last set `command` or `args`, and why; None while they are the TrainJob's."""
        return self._why.get(what)


def _copied(items: list[str] | None) -> list[str] | None:
    return None if items is None else list(items)
