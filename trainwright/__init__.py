# SPDX-License-Identifier: Apache-2.0
"""Distributed training on Kubernetes: the Kubeflow Trainer API, served from Python.

The packages below this one are links to the top-level folders of the repository; import them through this root only.
"""

__version__ = "0.1.0.dev0"


def __getattr__(name: str) -> object:
    """`trainwright.run` and its class `Run`, loaded at first use: training code imports `trainwright.progress` alone.

    By name, since all packages below import this one for its version, and none of them may depend on the commands.
    """
    if name not in ("run", "Run"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib  # noqa: PLC0415 - with what it loads

    return getattr(importlib.import_module("trainwright.controller.cli.python"), name)
