# SPDX-License-Identifier: Apache-2.0
"""The form in which the real server's Go structs are written."""

from trainwright.controller.local.apiserver.strategies.gowriting.internal import internal
from trainwright.controller.local.apiserver.strategies.gowriting.rewriting import rewrite

__all__ = ["internal", "rewrite"]
