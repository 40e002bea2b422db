# SPDX-License-Identifier: Apache-2.0
"""What the trainer container will run: the TrainJob's image, command and arguments, as plugins have rewritten them.

Some frameworks start the user's command through a wrapper. They cannot write into the TrainJob, which is an input, nor
into the container, where the TrainJob's values go last; so the resolved values are here, and the builder takes them.
"""

from trainwright.api.trainer.v1alpha1 import Trainer
from trainwright.plugins.contract.provenance import Ledger


class TrainerSettings:
    """None means that the runtime's value stays; an empty list clears it."""

    __slots__ = ("_args", "_command", "_image", "_ledger", "_why")

    def __init__(self, trainer: Trainer | None, ledger: Ledger) -> None:
        self._ledger = ledger
        self._image = trainer.image if trainer is not None else None
        self._command = _copied(trainer.command) if trainer is not None else None
        self._args = _copied(trainer.args) if trainer is not None else None
        self._why: dict[str, tuple[str, str]] = {}

    @property
    def image(self) -> str | None:
        """The image of the TrainJob."""
        return self._image

    @property
    def command(self) -> tuple[str, ...] | None:
        """The command of the TrainJob, or what a plugin made of it."""
        return None if self._command is None else tuple(self._command)

    @property
    def args(self) -> tuple[str, ...] | None:
        """The arguments of the TrainJob, or what a plugin made of them."""
        return None if self._args is None else tuple(self._args)

    def set_command(self, command: list[str], *, why: str) -> None:
        """Run this instead."""
        self._command = list(command)
        self._why["command"] = (self._ledger.plugin, why)

    def set_args(self, args: list[str] | None, *, why: str) -> None:
        """Pass these instead; None leaves those of the runtime."""
        self._args = _copied(args)
        self._why["args"] = (self._ledger.plugin, why)

    def origin(self, what: str) -> tuple[str, str] | None:
        """Plugin and reason of the last rewrite of `command` or `args`; None while they are the TrainJob's."""
        return self._why.get(what)


def _copied(items: list[str] | None) -> list[str] | None:
    return None if items is None else list(items)
