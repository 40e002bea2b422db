# SPDX-License-Identifier: Apache-2.0
"""The root of errors that commands show to users as they are."""


class UserError(Exception):
    """Its text says what happened, to which object, and what to do: a command prints it without a traceback.

    This module imports nothing, so that commands that start fast can catch it.
    """
