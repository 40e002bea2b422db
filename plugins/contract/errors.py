# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N818 - the names say what happened, as conditions and logs do
"""The errors of plugins and of the pipeline; each names the plugin that it comes from.

PipelineError            final: the same inputs give the same error, so the job waits for a change
├── Refusal              a plugin cannot build this job or runtime; plugins raise it on purpose
├── PluginFailure        a plugin raised another exception: a defect of the plugin
├── InputMutated         a plugin changed an input, which other plugins use too
└── DuplicateObject      two plugins built the same object
FactUnavailable          a fact about the cluster could not be read; the job is tried again
RegistryError            plugins cannot be loaded together; the process does not start

They do not derive from errors of the controller, which plugins do not know. The trainer decides what it shows of each
and when it tries again (`controller/trainer/job/obstacles.py`).
"""

from trainwright.api.errors import UserError
from trainwright.api.messages import shortened


class PipelineError(Exception):
    """The pipeline built no objects. `plugin` and `phase` say where; the pipeline fills them in."""

    def __init__(self, message: str, *, plugin: str = "", phase: str = "") -> None:
        super().__init__(shortened(f"plugin {plugin}: {message}" if plugin else message))
        self.message = message
        self.plugin = plugin
        self.phase = phase


class Refusal(PipelineError):
    """A plugin raises it when this job or runtime cannot be built. The message says what, where and what to do.

    The pipeline adds the names of the plugin and of the phase.
    """

    def attributed(self, plugin: str, phase: str) -> "Refusal":
        """The same refusal with the plugin and the phase that it comes from."""
        return Refusal(self.message, plugin=plugin, phase=phase)


class PluginFailure(PipelineError):
    """A plugin raised an undeclared exception; `__cause__` has it with its traceback."""


class InputMutated(PipelineError):
    """A plugin changed the TrainJob or the runtime. Plugins get copies, so the change reached no other job."""


class DuplicateObject(PipelineError):
    """Two plugins built the same object. Each apply would undo the other."""


class FactUnavailable(Exception):
    """A fact could not be read, or no plugin announced it (see `UsesFacts`)."""


class RegistryError(UserError):
    """The plugins cannot work together; the message has one line per problem, each naming plugin and distribution."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)
