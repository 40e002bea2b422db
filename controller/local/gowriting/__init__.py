# SPDX-License-Identifier: Apache-2.0
"""The form in which the real server's Go structs are written."""

from trainwright.controller.local.gowriting.internal import internal
from trainwright.controller.local.gowriting.rewriting import rewrite
from trainwright.controller.local.gowriting.shapes import Shape, fields_of

__all__ = ["Shape", "fields_of", "internal", "rewrite"]
