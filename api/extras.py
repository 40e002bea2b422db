# SPDX-License-Identifier: Apache-2.0
"""The extras of this distribution: libraries that only some commands need, imported when they are first needed.

Whoever needs a missing one is told what to install.
"""

import importlib
import importlib.util
import re
import shlex
import sys
from importlib import metadata
from typing import Any, Final

from trainwright.api.errors import UserError

LIBRARIES: Final = {
    "dashboard": {"aiohttp": "aiohttp"},
    "fast": {"uvloop": "uvloop"},
    "generate": {
        "datamodel_code_generator": "datamodel-code-generator",
        "jsonschema": "jsonschema",
        "kubernetes_validate": "kubernetes-validate",
    },
    "local": {"cel_expr_python": "cel-expr-python", "re2": "google-re2", "google": "protobuf"},
    "optimization": {"cmaes": "cmaes", "optuna": "optuna", "scipy": "scipy"},
    "progress": {"rich": "rich"},
    "s3": {"opendal": "opendal"},
    "tensorboard": {"tensorboardX": "tensorboardX"},
    "testing": {"cryptography": "cryptography", "pytest": "pytest", "pytest_asyncio": "pytest-asyncio"},
    "validate": {"cel_expr_python": "cel-expr-python", "re2": "google-re2", "google": "protobuf"},
}
"""Modules and their distributions by extra, as in pyproject.toml."""


class MissingExtraError(UserError, ImportError):
    """The libraries of an extra are not installed; the text says what to install."""


def missing(extra: str) -> list[str]:
    """Distributions of the extra that are not installed."""
    return [name for module, name in LIBRARIES[extra].items() if importlib.util.find_spec(module) is None]


def install(names: list[str]) -> str:
    """The command that installs distributions, within our bounds.

    By their names, because no index has Trainwright, and with the interpreter, because `pip` of the shell may belong
    to another environment.
    """
    return shlex.join([sys.executable, "-m", "pip", "install", *map(_bounded, names)])


def _bounded(name: str) -> str:
    """The distribution with the versions that Trainwright allows."""
    try:
        lines = metadata.requires("trainwright") or []
    except metadata.PackageNotFoundError:  # run from its folder
        return name
    wanted = (line.partition(";")[0].strip() for line in lines)
    return next((line for line in wanted if re.split("[^-_.a-zA-Z0-9]", line)[0] == name), name)


def require(extra: str, purpose: str) -> None:
    """Check that an extra is installed.

    Args:
        extra: name of the extra.
        purpose: what it is needed for, as the subject of a sentence in the singular, such as "a local cluster".

    Raises:
        MissingExtraError: it is not.
    """
    if names := missing(extra):
        raise MissingExtraError(f"{purpose} needs {' and '.join(names)}: {install(names)}")


def load(module: str) -> Any:
    """A module of one of the libraries of `validate`.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        top = module.partition(".")[0]
        name = LIBRARIES["validate"].get(top, top)
        raise MissingExtraError(f"offline validation needs {name}: {install([name])}") from error
