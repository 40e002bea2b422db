# SPDX-License-Identifier: Apache-2.0
"""Reads the manager's Configuration file. Every unknown field is an error, and all errors are reported at once.

`trainer.assembly.settings` derives the settings from it and refuses values that cannot take effect.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trainwright.api.config.v1alpha1 import Configuration
from trainwright.api.manifest import ManifestError, documents
from trainwright.api.merge import unknown_fields
from trainwright.controller.runtime import ConfigurationError
from trainwright.controller.trainer.assembly.features import features_of, selection_of
from trainwright.controller.trainer.assembly.settings import ManagerSettings, settings_of, shipped_installation
from trainwright.plugins.registry import Registry

API_VERSION = "config.trainer.kubeflow.org/v1alpha1"
KIND = "Configuration"


def load_configuration(path: Path | None) -> Configuration:
    """The configuration in the file, with defaults; all defaults without a file.

    Raises ConfigurationError: the file cannot be read, has another kind, or has unknown fields.
    """
    configuration, problems = _read(path)
    _refuse(path, problems)
    configuration.set_defaults()
    return configuration


def load_registry(path: Path | None) -> Registry:
    """The plugins of a manager with the Configuration in the file, those of its feature gates among them.

    Raises:
        ConfigurationError: as `load_configuration`, for unknown gates, and for a plugin that only a gate turns on.
        RegistryError: the plugins cannot be loaded together.
    """
    configuration = load_configuration(path)
    features = features_of(configuration.feature_gates or {})
    selection = selection_of(configuration.plugins, configuration.recovery, features)
    return Registry.load(selection, installation=shipped_installation(configuration))


def load_settings(path: Path | None, feature_gates: Mapping[str, bool], *, in_cluster: bool = True) -> ManagerSettings:
    """The settings of a manager with the Configuration in the file; `feature_gates` take precedence over those of the
    file. `in_cluster`: whether the manager is a pod of the cluster.

    Raises ConfigurationError as `load_configuration`, and for values that cannot take effect.
    """
    configuration, problems = _read(path)
    if feature_gates:
        configuration.feature_gates = {**(configuration.feature_gates or {}), **feature_gates}
    try:
        settings = settings_of(configuration, in_cluster=in_cluster)
    except ConfigurationError as error:
        _refuse(path, [*problems, *str(error).splitlines()])
        raise
    _refuse(path, problems)
    return settings


def _refuse(path: Path | None, problems: Sequence[str]) -> None:
    where = f"{path}: " if path is not None else ""
    if problems:
        raise ConfigurationError("\n".join(f"{where}{problem}" for problem in problems))


def _read(path: Path | None) -> tuple[Configuration, list[str]]:
    if path is None:
        return Configuration(), []
    try:
        found = list(documents(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} is not UTF-8 text") from error
    except ManifestError as error:
        raise ConfigurationError(f"{path}: {error}") from error
    if len(found) > 1:
        raise ConfigurationError(f"{path} holds {len(found)} documents; one is expected")
    return _decode(found[0].data if found else {}, path)


def _decode(data: Any, path: Path) -> tuple[Configuration, list[str]]:
    if not isinstance(data, dict):
        raise ConfigurationError(f"{path} is not a {KIND}: it holds {type(data).__name__} instead of fields")
    for name, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if data.get(name, expected) != expected:
            raise ConfigurationError(f"{path}: {name} must be {expected}, not {data[name]!r}")
    # An unknown field without a value is let through: it says nothing.
    unknown = [path for path, value, _ in unknown_fields(Configuration, data) if value is not None]
    problems = [f"{'.'.join(map(str, path))}: unknown field" for path in unknown]
    while True:
        try:
            return msgspec.convert(data, Configuration), problems
        except msgspec.ValidationError as error:
            what, _, where = str(error).partition(" - at `")
            field = where.rpartition("$")[2].rstrip("`").lstrip(".")
            problems.append(f"{field}: {what}" if field else what)
            # The library stops at the first one; the next is found without it.
            if not _leave_out(data, field.partition("[")[0].split(".")):
                _refuse(path, problems)


def _leave_out(data: dict[str, Any], names: Sequence[str]) -> bool:
    """Remove a field; False: there is none of this path."""
    *sections, name = names
    place: Any = data
    for section in sections:
        place = place.get(section) if isinstance(place, dict) else None
    return isinstance(place, dict) and place.pop(name, None) is not None
