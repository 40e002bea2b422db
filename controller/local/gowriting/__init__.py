# SPDX-License-Identifier: Apache-2.0
"""The form in which the real server's Go structs are written."""

from trainwright.controller.local.gowriting.rewriting import rewrite
from trainwright.controller.local.gowriting.shapes import GoShape, fields_of

__all__ = ["GoShape", "fields_of", "rewrite"]
