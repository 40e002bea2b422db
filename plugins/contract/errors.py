# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N818 - what happened, as the words appear in conditions and logs
"""What can go wrong between a TrainJob and its objects, always with the name of the plugin that it went wrong in.

PipelineError            terminal: the same inputs give the same error, so a retry waits for a change
├── Refusal              a plugin cannot make anything of this job or runtime; raised by plugins on purpose
├── PluginFailure        a plugin raised something else: a defect of that plugin
├── InputMutated         a plugin changed an input, which others see as well
└── DuplicateObject      two plugins built the same object
FactUnavailable          a fact about the cluster could not be read; worth a retry
RegistryError            plugins that cannot be loaded together; the process does not start
"""

from trainwright.controller.runtime.errors import KubernetesError, Terminal

MESSAGE_LIMIT = 300
"""Characters of a message that ends in a condition; longer causes are cut, since conditions are read in tables."""


class PipelineError(Terminal):
    """The pipeline gave no objects. `plugin` and `phase` say where; empty while the plugin has not been named yet."""

    def __init__(self, message: str, *, plugin: str = "", phase: str = "") -> None:
        super().__init__(_cut(f"plugin {plugin}: {message}" if plugin else message))
        self.message = message
        self.plugin = plugin
        self.phase = phase


class Refusal(PipelineError):
    """What a plugin raises when this job or runtime cannot be built. Say what, where and what to do.

    The pipeline adds the name of the plugin and of the phase.
    """

    def attributed(self, plugin: str, phase: str) -> "Refusal":
        """The same refusal with its author."""
        return Refusal(self.message, plugin=plugin, phase=phase)


class PluginFailure(PipelineError):
    """A plugin raised an undeclared exception; `__cause__` has it with its traceback."""


class InputMutated(PipelineError):
    """A plugin changed the TrainJob or the runtime. It works on copies, so nobody else saw the change."""


class DuplicateObject(PipelineError):
    """An object was built by two plugins: the second apply would undo the first, for ever."""


class FactUnavailable(KubernetesError):
    """A fact was asked for that could not be read, or that nobody announced (see `UsesFacts`)."""


class RegistryError(Exception):
    """The plugins cannot work together; the message has one line per problem, each naming plugin and distribution."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def _cut(message: str) -> str:
    return message if len(message) <= MESSAGE_LIMIT else message[: MESSAGE_LIMIT - 1] + "…"
