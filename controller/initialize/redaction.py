# SPDX-License-Identifier: Apache-2.0
"""Removes secrets from text before it is shown or written."""

import re
from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl, quote, unquote, urlsplit

ALWAYS_SECRET = (
    "ACCESS_TOKEN",
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "SECRET_ACCESS_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
)
"""Variables that hold secrets whichever provider runs."""
HIDDEN = "***"
_SHORTEST = 3
"""Shorter values would blank out ordinary words, and protect nothing."""
_USER = re.compile(r"([A-Za-z][\w+.-]*://)[^/\s?#]*@")
_QUERY = re.compile(r"([A-Za-z][\w+.-]*://[^\s?#]*)\?[^\s#'\"]*")


class Redactor:
    """Knows the secrets of one run."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        forms = {form for value in values for form in (value, value.strip(), quote(value, safe=""), repr(value)[1:-1])}
        # The longest first: one secret may contain another.
        self._forms = sorted((form for form in forms if len(form) >= _SHORTEST), key=len, reverse=True)

    def clean(self, text: str) -> str:
        """The text without secrets, and without users and queries in addresses."""
        for form in self._forms:
            text = text.replace(form, HIDDEN)
        return _QUERY.sub(r"\1", _USER.sub(r"\1", text))


def secrets_in(address: str) -> list[str]:
    """Parts of an address that may be secret: the password, and values of the query that are long enough for a key."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return []
    password = [unquote(parts.password)] if parts.password else []
    return password + [value for name, value in parse_qsl(parts.query) if len(value) >= 12 and name != "revision"]


def secrets_of(variables: Mapping[str, str], names: Iterable[str]) -> list[str]:
    """Values of the variables that hold secrets."""
    return [variables[name] for name in {*ALWAYS_SECRET, *names} if variables.get(name)]
