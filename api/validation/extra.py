# SPDX-License-Identifier: Apache-2.0
"""Imports the libraries of the extra `validate` when they are first needed."""

import importlib
from typing import Any


class MissingExtraError(ImportError):
    """The libraries for offline validation are not installed."""


def load(module: str) -> Any:
    """A module of one of the libraries."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"offline validation needs {module.partition('.')[0]}: pip install 'trainwright[validate]'"
        ) from error
