# SPDX-License-Identifier: Apache-2.0
"""Authorization headers that nobody means well with: 10,000 random ones and 10,000 changed tokens.

None is accepted, each is refused as such (never as a failure of the server), and none costs memory or a request.
"""

import gc
import json
import random
import string
import tracemalloc
from typing import Any

from tests.issuers import Signer
from tests.unit.trainer.reporting import JOB, SPACE, Cluster
from trainwright.controller.runtime.testing.clock import jumping
from trainwright.controller.runtime.tokens.encoded import from_base64, to_base64
from trainwright.controller.trainer.progress.tokens import Forbidden, audience

COUNT = 10_000
KEPT_BYTES = 100_000
"""What may be kept after 5,000 headers: caches of the interpreter. A leak of 20 bytes a header would be more."""
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


async def refuse_all(cluster: Cluster, headers: list[str], valid: str) -> None:
    for header in headers:
        fields = header.split()
        if len(fields) == 2 and fields[1] == valid:
            continue  # the change changed nothing
        try:
            await cluster.access.check(header, SPACE, JOB)
        except Forbidden:
            continue
        raise AssertionError(f"accepted: {header!r}")


@jumping
async def test_random_headers_and_changed_tokens_are_refused() -> None:
    chance = random.Random(18)
    for signer in (Signer("ES256"), Signer("RS256")):
        async with Cluster(signer=signer) as cluster:
            valid = cluster.token(pod=("node-0", "pod-uid"))
            await cluster.access.check(f"Bearer {valid}", SPACE, JOB)
            others = [cluster.token(audience(SPACE, "other")), cluster.token(exp=1), valid]
            half = COUNT // 4
            headers = [random_header(chance) for _ in range(2 * half)]
            headers += [f"Bearer {changed(chance, valid, others)}" for _ in range(2 * half)]
            chance.shuffle(headers)
            await refuse_all(cluster, headers[: 2 * half], valid)
            gc.collect()
            tracemalloc.start()
            try:
                await refuse_all(cluster, headers[2 * half :], valid)
                gc.collect()
                kept, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert kept < KEPT_BYTES
            keys = [request for request in cluster.transport.requests if request.path.endswith("jwks")]
            assert len(keys) == 1, "the clock stands still, so unknown keys are looked for once"
            await cluster.access.check(f"Bearer {valid}", SPACE, JOB)
