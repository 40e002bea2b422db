# SPDX-License-Identifier: Apache-2.0
"""Random reports, most of them wrong: bodies, headers, tokens, paths. Each must get an answer in JSON."""

import asyncio
import json
import random
import ssl
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.integration.trainer.reporting import World, running
from tests.reports import TIME, path_of, progress

REPORTS_OF_A_JOB = 4
AT_ONCE = 8
ANSWER_SECONDS = 60.0
CODES = frozenset({200, 400, 403, 404, 413, 422, 429})
"""Other answers, such as 500, are defects."""
_PIECES = (
    *(
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        '"',
        "\\",
        "null",
        "true",
        "NaN",
        "-1",
        "101",
        "1e999",
        "1" * 400,
        " ",
        "\x00",
        "é",
    ),
    *('"trainerStatus"', '"metrics"', '"name"', '"value"', '"progressPercentage"', '"lastUpdatedTime"', r'"\ud800"'),
)


class Chance:
    """Makes random requests for one TrainJob."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def value(self, depth: int = 0) -> Any:
        r = self.random
        leaves: tuple[Any, ...] = (
            *(None, True, 0, 1, -1, 100, 101, 2**31 - 1, 2**31, 2**70, 1.5, -0.0, 1e300, "", "x", "x" * 64, "x" * 65),
            *(
                "é" * 64,
                "\ud800",
                "\u0000",
                TIME,
                "0001-01-01T00:00:00Z",
                "9999-12-31T23:59:59-14:00",
                "yesterday",
                "NaN",
            ),
        )
        if depth > 3 or r.random() < 0.6:
            return r.choice(leaves)
        if r.random() < 0.5:
            return [self.value(depth + 1) for _ in range(r.choice((0, 1, 2, 300 if depth == 2 else 3)))]
        return {self.key(): self.value(depth + 1) for _ in range(r.randrange(5))}

    def key(self) -> str:
        known = ("progressPercentage", "estimatedRemainingSeconds", "metrics", "lastUpdatedTime", "name", "value")
        key = self.random.choice((*known, "trainerStatus", "other", "\u017f", ""))
        return key if self.random.random() < 0.8 else key.upper()

    def body(self) -> bytes:
        r = self.random
        good = progress(r.randrange(101), metrics=[{"name": "loss", "value": str(r.random())}])
        kind = r.randrange(8)
        if kind == 0:
            return r.randbytes(r.choice((0, 1, 100, 5000)))
        if kind == 1:
            return "".join(r.choice(_PIECES) for _ in range(r.randrange(40))).encode()
        if kind == 2:
            good["trainerStatus"][self.key()] = self.value()
        elif kind == 3:
            good = {"trainerStatus": self.value()}
        data = json.dumps(good).encode()
        if kind == 4:
            place = r.randrange(len(data))
            data = data[:place] + r.randbytes(r.randrange(3)) + data[place + r.randrange(3) :]
        elif kind == 5:
            data += r.randbytes(r.choice((1, 100, 66_000)))
        elif kind == 6:
            data = r.choice((b"[", b'{"a":', b"\xff")) * r.choice((10, 3000, 60_000))
        return data

    def authorization(self, token: str) -> bytes:
        r = self.random
        kind = r.randrange(8)
        if kind == 0:
            place = r.randrange(len(token) - 1)
            changed = r.choice("ABCxyz012-_.")
            token = token[:place] + changed + token[place + 1 :]
        if kind == 1:
            token = r.randbytes(r.choice((0, 10, 1000))).hex()
        if kind == 2:
            return r.choice((b"", b"Bearer", b"bearer  ", b"Basic x", b"\xff\xfe", b"Bearer a b", b"Bearer ...", b"\t"))
        return r.choice((b"Bearer ", b"bEaReR ", b"Bearer\t")) + token.encode()

    def request(self, path: str, token: str) -> bytes:
        r = self.random
        body = self.body()
        if r.random() < 0.1:
            path = r.choice(("/", "//", path + "/", path + "?x=%00", "/%zz", "*", "http://x/", path.upper(), path[:-1]))
        lines = [
            r.choice(("POST",) * 12 + ("GET", "PUT", "OPTIONS", "P@ST", "CONNECT")).encode()
            + f" {path} HTTP/1.1".encode()
        ]
        lines.append(b"Host: " + r.choice((b"x", b"", b"\xe9")))
        if r.random() < 0.95:
            lines.append(b"Authorization: " + self.authorization(token))
        more = (b"X-A: b", b"Expect: x", b"Content-Encoding: gzip", b"Cookie: \x01", b": y", b"Upgrade: h2c")
        lines += [r.choice(more) for _ in range(r.choice((*(0,) * 20, 1, 3, 200)))]
        if r.random() < 0.8:
            lines.append(b"Content-Length: " + str(len(body)).encode())
            content = body
        elif r.random() < 0.8:
            lines.append(b"Transfer-Encoding: chunked")
            content = (
                b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:9], body[9:]) if part) + b"0\r\n\r\n"
            )
        else:
            lines.append(r.choice((b"Content-Length: x", b"Content-Length: -1", b"Transfer-Encoding: x", b"X: y")))
            content = body
        return b"\r\n".join([*lines, b"Connection: close", b"", b""]) + content


async def _answer(port: int, request: bytes) -> bytes:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    try:
        with suppress(ConnectionError):
            writer.write(request)
            await writer.drain()
        return await reader.read()
    finally:
        writer.close()


def _wrong(answer: bytes) -> tuple[int, str]:
    """The code of an answer, and what is wrong with it."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1."):
        return 0, f"no answer: {answer[:100]!r}"
    code = int(head.split()[1])
    if not body and b"Content-Length: 0" not in head:
        return code, ""  # to HEAD or CONNECT
    try:
        found = json.loads(body)
    except ValueError:
        return code, f"not JSON: {body[:200]!r}"
    if code == 200:
        right = set(found) <= {"trainerStatus"}
    else:
        right = found.get("code") == code and found.get("status") == "Failure" and bool(found.get("reason"))
    if code in CODES and right and b"application/json" in head:
        return code, ""
    return code, f"{head[:300]!r} {body[:300]!r}"


async def bombard(folder: Path, seed: int, reports: int) -> tuple[Counter[int], list[str], Counter[str]]:
    """Send random reports. Returns codes, what was wrong, and what became of the accepted values."""
    codes: Counter[int] = Counter()
    wrong: list[str] = []
    # All accepted values reach the API server, whose own checks then tell whether one should have been refused.
    async with running(folder, progress={"interval": "2s"}, statusServer={"qps": 0}) as world:
        names = iter(range(reports // REPORTS_OF_A_JOB))

        async def worker() -> None:
            for number in names:
                await _bombard_job(world, number, Chance(seed * 1_000_003 + number), codes, wrong)

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(worker())
        registry = world.managers[0].metrics.registry
    outcomes = Counter(
        {
            result: int(registry.get_sample_value("trainer_progress_writes_total", {"result": result}) or 0)
            for result in ("stored", "refused", "failed", "gone", "throttled")
        }
    )
    return codes, wrong, outcomes


async def _bombard_job(world: World, number: int, chance: Chance, codes: Counter[int], wrong: list[str]) -> None:
    name = f"job{number}"
    await world.job(name)
    token = await world.token(name)
    for _ in range(REPORTS_OF_A_JOB):
        request = chance.request(path_of("default", world.own(name)), token)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                code, text = _wrong(await _answer(world.ports[0], request))
        except Exception as error:  # the next request tells more
            code, text = 0, f"{type(error).__name__}: {error}"
        codes[code] += 1
        if text:
            wrong.append(f"{text} to {request[:300]!r}")
