# SPDX-License-Identifier: Apache-2.0
"""The form in which the real server's Go structs are written."""

from trainwright.controller.local.apiserver.strategies.gowriting.internal import internal
from trainwright.controller.local.apiserver.strategies.gowriting.rewriting import rewrite
from trainwright.controller.local.apiserver.strategies.gowriting.shapes import Shape, fields_of

__all__ = ["Shape", "fields_of", "internal", "rewrite"]
