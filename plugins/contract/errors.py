# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N818 - the names say what happened, as conditions and logs do
"""What goes wrong: the findings of validation, and the errors of plugins and of the pipeline.

Field errors refuse a TrainJob, warnings are shown to the user. Field errors have the types and the text form of
Kubernetes' own errors, so clients that parse those can parse these. Each exception names the plugin that it comes from:

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

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

from trainwright.api.errors import UserError
from trainwright.api.messages import shortened, value_text


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


class ErrorType(Enum):
    """Why a field is refused; the value is the `reason` of a cause in an API status."""

    INVALID = "FieldValueInvalid"
    FORBIDDEN = "FieldValueForbidden"
    REQUIRED = "FieldValueRequired"
    NOT_FOUND = "FieldValueNotFound"
    DUPLICATE = "FieldValueDuplicate"
    INTERNAL = "InternalError"


_TITLES = {
    ErrorType.INVALID: "Invalid value",
    ErrorType.FORBIDDEN: "Forbidden",
    ErrorType.REQUIRED: "Required value",
    ErrorType.NOT_FOUND: "Not found",
    ErrorType.DUPLICATE: "Duplicate value",
    ErrorType.INTERNAL: "Internal error",
}
_WITH_VALUE = frozenset({ErrorType.INVALID, ErrorType.NOT_FOUND, ErrorType.DUPLICATE})
_VALUE_LIMIT = 120


@dataclass(frozen=True, slots=True)
class FieldError:
    """One reason to refuse a TrainJob."""

    path: str
    """The field, from the root of the TrainJob, such as `spec.trainer.args[0]`."""
    type: ErrorType
    message: str
    value: Any = None
    """The refused value, shown by INVALID, NOT_FOUND and DUPLICATE."""
    plugin: str = ""
    """The plugin that found it; filled in by the pipeline."""

    def __str__(self) -> str:
        """As Kubernetes writes it: path, kind of error, value, message. A defect of a plugin concerns no field."""
        where = f"{self.path}: " if self.path else ""
        shown = f": {value_text(self.value, _VALUE_LIMIT)}" if self.type in _WITH_VALUE else ""
        return f"{where}{_TITLES[self.type]}{shown}: {self.message}"


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning. The TrainJob is accepted all the same."""

    message: str
    plugin: str = ""
    path: str = ""
    """The field that it is about; not given if that is refused."""

    def __str__(self) -> str:
        return self.message


Finding: TypeAlias = FieldError | Warned
"""What `validate` yields."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """All findings, in the order of the plugins."""

    errors: tuple[FieldError, ...] = ()
    warnings: tuple[Warned, ...] = field(default=())

    @property
    def allowed(self) -> bool:
        """Whether the job is accepted."""
        return not self.errors

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> "Verdict":
        """Split findings into errors and warnings, in the given order. What several plugins warn of is said once."""
        found = tuple(findings)
        errors = tuple(finding for finding in found if isinstance(finding, FieldError))
        refused = {error.path for error in errors}
        warnings: dict[str, Warned] = {}
        for finding in found:
            if isinstance(finding, Warned) and not (finding.path and finding.path in refused):
                warnings.setdefault(finding.message, finding)
        return cls(errors, tuple(warnings.values()))


def invalid(path: str, value: Any, message: str) -> FieldError:
    """The field has a value that cannot be used."""
    return FieldError(path, ErrorType.INVALID, message, value)


def forbidden(path: str, message: str) -> FieldError:
    """The field must not be set, or not at this time."""
    return FieldError(path, ErrorType.FORBIDDEN, message)


def required(path: str, message: str) -> FieldError:
    """The field must be set."""
    return FieldError(path, ErrorType.REQUIRED, message)


def internal(path: str, message: str) -> FieldError:
    """The field could not be checked."""
    return FieldError(path, ErrorType.INTERNAL, message)
