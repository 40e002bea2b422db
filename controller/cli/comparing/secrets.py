# SPDX-License-Identifier: Apache-2.0
"""Which values are not shown: those whose names look like secrets. Better one too many than one too few."""

import re

HIDDEN = "(hidden)"
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
_LOOKS_SECRET = re.compile(
    # Anywhere, since words are written together, too: MYSECRET, dbpassword.
    r"secret|passw|passphrase|passcode|credential|bearer|api_?keys?(_|$)|(access|private|signing|encryption|ssh|master)_?key"
    # `token`, but not what counts or makes tokens: max_tokens, tokenizer, tokenization.
    r"|token(?!s|i[sz])|(auth|access|api|hf|hub|git(hub|lab)?|bot)_?tokens"
    # As words of their own.
    r"|(^|_)(o?auth|authorization|cookies?|jwt|dsn|webhook|sas|pin|keys?|pat)(_?\d+)?$|(^|_)(o?auth|cookie|jwt|dsn)_"
    r"|_pwd(_|$)|conn(ection)?_str(ing)?|connection_?uri|database_url"
)
_IN_TEXT = re.compile(
    r"(?<![\w.])(?P<name>[A-Za-z_][\w.-]*+)(?P<between>['\"]?\s*+[=:]\s*+|\s++)(?P<value>\"[^\"]*\"|'[^']*'|[^\s;&|,}]+)"
)
_MOST = 20_000
"""Characters of a text; what follows is not shown."""
_USER_INFO = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)[^/\s@]+@")
_IN_QUERY = re.compile(r"(?P<before>[?&])(?P<name>[^=&\s]+)=(?P<value>[^&\s]+)")


def looks_secret(name: str) -> bool:
    """Whether the name of a variable, an option or a field says that its value is a secret."""
    words = "_".join(word for word in _WORDS.split(name) if word).lower()
    return _LOOKS_SECRET.search(words) is not None


def shown(name: str, value: str) -> str:
    """The value as it may be shown; what looks like a secret in it is hidden, and all of it if its name does."""
    return HIDDEN if looks_secret(name) else within(value)


def within(text: str) -> str:
    """A text without the secrets in it: of `NAME=value` and `--name value`, and what an address has before its host."""
    text = text if len(text) <= _MOST else f"{text[:_MOST]}…"
    text = _USER_INFO.sub(rf"\g<scheme>{HIDDEN}@", text)
    text = _IN_QUERY.sub(lambda found: f"{found['before']}{found['name']}={_part(found['name'], found['value'])}", text)
    made, at = "", 0
    # Found one after the other, and not all at once: a word may be a value of the one before it, or the next name.
    while (found := _IN_TEXT.search(text, at)) is not None:
        is_option = found["between"].strip() == "" and text[: found.start("name")].endswith("-")
        if looks_secret(found["name"]) and (found["between"].strip() or is_option):
            made += text[at : found.start("value")] + HIDDEN
            at = found.end("value")
        else:
            made += text[at : found.end("name")]
            at = found.end("name")
    return made + text[at:]


def _part(name: str, value: str) -> str:
    return HIDDEN if looks_secret(name) else value
