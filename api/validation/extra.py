# SPDX-License-Identifier: Apache-2.0
"""The libraries of the extra `validate`, which are imported when they are first needed."""

import importlib
from typing import Any


class MissingExtraError(ImportError):
    """Validation was asked for where its libraries are not installed."""


def load(module: str) -> Any:
    """A module of one of the libraries."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"offline validation needs {module.partition('.')[0]}: pip install 'trainwright[validate]'"
        ) from error
