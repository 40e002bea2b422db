# SPDX-License-Identifier: Apache-2.0
"""Authorization headers that must be refused: random ones, and valid tokens with a change."""

import json
import random
import string
from typing import Any

from trainwright.controller.runtime.tokens.signatures import from_base64, to_base64

ALPHABET = string.ascii_letters + string.digits + "-_=+/., \t\x00\x7f\xa0é\udcff\u2028"
FIELDS = ("alg", "kid", "crit", "typ", "iss", "aud", "exp", "nbf", "sub", "kubernetes.io", "b64", "")
VALUES: tuple[Any, ...] = (
    None,
    "",
    0,
    -1,
    1e308,
    10**400,
    True,
    [],
    {},
    [[]],
    "none",
    "HS256",
    "RS256",
    "ES256",
    "x" * 5000,
    {"namespace": 5},
)


def random_header(chance: random.Random) -> str:
    """Anything, most of it shaped a little like a token."""
    text = "".join(chance.choices(ALPHABET, k=chance.choice((0, 1, 5, 40, 400, 4000))))
    match chance.randrange(6):
        case 0:
            return text
        case 1:
            return f"Bearer {text}"
        case 2:
            return f"{chance.choice(('Bearer', 'bearer', 'Basic', 'Token', ''))}\t{text[:9]}.{text[9:99]}.{text[99:]}"
        case 3:
            parts = (chance.randbytes(chance.randrange(200)) for _ in range(chance.randrange(1, 6)))
            return "Bearer " + ".".join(map(to_base64, parts))
        case 4:
            depth = chance.randrange(2000)
            nested = ("[" * depth + "]" * depth).encode() if chance.random() < 0.5 else b'{"":' * depth
            return f"Bearer {to_base64(nested)}.{to_base64(nested)}.{to_base64(b'0')}"
        case _:
            header, claims = ({one: chance.choice(VALUES) for one in chance.sample(FIELDS, 4)} for _ in range(2))
            return "Bearer " + ".".join(to_base64(json.dumps(part).encode()) for part in (header, claims, 0))


def changed(chance: random.Random, token: str, others: list[str]) -> str:
    """A valid token with a change."""
    place = chance.randrange(len(token))
    parts = token.split(".")
    which = chance.randrange(3)
    match chance.randrange(8):
        case 0:
            return token[:place] + chance.choice(ALPHABET) + token[place + 1 :]
        case 1:
            return token[:place] + token[place + 1 :]
        case 2:
            return token[:place] + chance.choice(ALPHABET) + token[place:]
        case 3:
            return token[:place]
        case 4:  # parts of several tokens, each of which is valid for something
            parts[which] = chance.choice(others).split(".")[which]
        case 5:
            parts = [*parts, *chance.choices(parts, k=chance.randrange(1, 4))]
        case 6 if which < 2:
            content = json.loads(from_base64(parts[which]))
            content[chance.choice(FIELDS)] = chance.choice(VALUES)
            parts[which] = to_base64(json.dumps(content).encode())
        case _:
            data = bytearray(from_base64(parts[which]))
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            parts[which] = to_base64(bytes(data))
    return ".".join(parts)
