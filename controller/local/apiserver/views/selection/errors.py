# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a selector."""


class SelectorError(ValueError):
    """A selector is refused; the text is the message of the Status.

    Attributes:
        code: the HTTP code that the API server answers.
        reason: the reason of the Status.
    """

    code = 400
    reason = "BadRequest"
