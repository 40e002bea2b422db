# SPDX-License-Identifier: Apache-2.0
"""Reads the manager's Configuration file: strictly, and with nothing in it that silently does nothing.

A field that this version does not act on stops the start with its path, whatever it says: a setting that is believed to
work and does not is worse than none.
"""

from pathlib import Path
from typing import Any

import msgspec

from trainwright.api.config.v1alpha1 import Configuration
from trainwright.api.manifest import ManifestError, documents
from trainwright.controller.runtime.errors import ConfigurationError

API_VERSION = "config.trainer.kubeflow.org/v1alpha1"
KIND = "Configuration"

EFFECTIVE = frozenset(
    {"apiVersion", "kind", "health.healthProbeBindAddress", "controller.groupKindConcurrency", "plugins"}
)
"""Paths of the fields that take effect, with everything below them."""


def load_configuration(path: Path | None) -> Configuration:
    """The configuration in the file, with defaults; all defaults without a file.

    Raises:
        ConfigurationError: the file cannot be read, is no such document, has unknown fields, or sets a field that
            would have no effect; all such fields in one message.
    """
    if path is None:
        configuration = Configuration()
    else:
        try:
            found = list(documents(path.read_text()))
        except OSError as error:
            raise ConfigurationError(f"cannot read {path}: {error.strerror}") from error
        except ManifestError as error:
            raise ConfigurationError(f"{path}: {error}") from error
        if len(found) > 1:
            raise ConfigurationError(f"{path} holds {len(found)} documents; one is expected")
        data = found[0].data if found else {}
        configuration = _decode(data, path)
    configuration.set_defaults()
    return configuration


def _decode(data: Any, path: Path) -> Configuration:
    if not isinstance(data, dict):
        raise ConfigurationError(f"{path} is no {KIND}: it holds {type(data).__name__} instead of fields")
    for name, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if data.get(name, expected) != expected:
            raise ConfigurationError(f"{path}: {name} is {data[name]!r} and must be {expected}")
    try:
        configuration = msgspec.convert(data, Configuration)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{path}: {error}") from error
    known = msgspec.to_builtins(configuration)
    problems = [f"{field} is not known" for field in _leaves(data) if not _holds(known, field)]
    problems += [f"{field} has no effect in this version" for field in _leaves(known) if not _is_effective(field)]
    if problems:
        raise ConfigurationError("\n".join(f"{path}: {problem}" for problem in problems))
    return configuration


def _leaves(data: dict[str, Any], prefix: str = "") -> list[str]:
    """Paths of all values that are set; an empty object counts as one."""
    found: list[str] = []
    for name, value in data.items():
        if isinstance(value, dict) and value:
            found += _leaves(value, f"{prefix}{name}.")
        elif value is not None:
            found.append(f"{prefix}{name}")
    return found


def _holds(data: Any, field: str) -> bool:
    """Whether decoding kept the field. Keys of maps may have dots, so the rest of the path is tried as a key first."""
    if not isinstance(data, dict):
        return False
    if field in data:
        return True
    return any(field.startswith(f"{name}.") and _holds(value, field[len(name) + 1 :]) for name, value in data.items())


def _is_effective(field: str) -> bool:
    return any(field == path or field.startswith(f"{path}.") for path in EFFECTIVE)
