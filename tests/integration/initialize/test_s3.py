# SPDX-License-Identifier: Apache-2.0
"""`s3://` on a real object storage."""

import asyncio
import hashlib
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import web

from tests.integration.initialize.object_storage import KEY, SECRET, FaultyProxy, ObjectServer, object_server, proxied
from tests.repository import ROOT
from tests.unit.initialize.runs import tree

pytestmark = pytest.mark.real_control_plane("S3")
LARGE = os.urandom(2**20) * 9


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectServer]:
    with object_server(tmp_path_factory.mktemp("storage")) as it:
        yield it


@pytest.fixture
async def proxy(server: ObjectServer) -> AsyncIterator[FaultyProxy]:
    async with proxied(server) as it:
        yield it


@dataclass
class Done:
    """How a run ended."""

    word: str
    sentence: str
    lines: list[str]

    def said(self, text: str) -> bool:
        return any(text in line for line in self.lines)


async def fetch(address: str, target: Path, variables: Mapping[str, str]) -> Done:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.integration.initialize.child", address, str(target)),
        cwd=ROOT,
        env={**environment(target.parent), **variables},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, error = await process.communicate()
    assert process.returncode == 0, error.decode()
    return Done(**json.loads(out))


def environment(home: Path) -> dict[str, str]:
    """Without credentials of this machine."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "SSL_CERT_"))}
    return {**kept, "HOME": str(home), "AWS_EC2_METADATA_DISABLED": "true", "TERMINATION_LOG": str(home / "ended")}


@pytest.fixture
async def bucket(server: ObjectServer, request: pytest.FixtureRequest) -> str:
    """One for each test, with a few objects."""
    digest = hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:20]
    name = server.bucket(f"test-{digest}")
    for key in ("data/a.txt", "data/sub/b", "database/c.txt", "data.txt", "shards/train-1", "shards/train-2"):
        await server.put(name, key, key.encode())
    return name


@pytest.mark.parametrize(
    ("prefix", "names"),
    [
        ("/data", {"a.txt": "data/a.txt", "sub/b": "data/sub/b"}),
        ("/data/", {"a.txt": "data/a.txt", "sub/b": "data/sub/b"}),
        ("/data.txt", {"data.txt": "data.txt"}),
        ("/shards/train-", {"1": "shards/train-1", "2": "shards/train-2"}),
        ("/data/sub/b", {"b": "data/sub/b"}),
    ],
)
async def test_a_prefix_ends_at_a_slash(
    server: ObjectServer, bucket: str, tmp_path: Path, prefix: str, names: dict[str, str]
) -> None:
    outcome = await fetch(f"s3://{bucket}{prefix}", tmp_path / "t", server.variables)
    assert outcome.word == ""
    assert tree(tmp_path / "t") == {name: key.encode() for name, key in names.items()}
    assert outcome.said("keys begin with it") == prefix.endswith("-")


async def test_a_whole_bucket_and_patterns_on_whole_keys(server: ObjectServer, bucket: str, tmp_path: Path) -> None:
    await fetch(f"s3://{bucket}", tmp_path / "t", {**server.variables, "IGNORE_PATTERNS": "shards/*,*.txt"})
    assert set(tree(tmp_path / "t")) == {"data/sub/b"}
    await fetch(f"s3://{bucket}/data", tmp_path / "t", {**server.variables, "IGNORE_PATTERNS": "sub/*"})
    assert set(tree(tmp_path / "t")) == {"a.txt", "sub/b"}
    await fetch(f"s3://{bucket}/data", tmp_path / "t", {**server.variables, "ALLOW_PATTERNS": "data/sub/*"})
    assert set(tree(tmp_path / "t")) == {"sub/b"}


async def test_odd_keys(server: ObjectServer, bucket: str, tmp_path: Path) -> None:
    keys = {"odd/a b", "odd/c+d", "odd/100%25", "odd/grün & süß.txt", "odd/#x?y=z", "odd/日本"}
    for key in keys:
        await server.put(bucket, key, key.encode())
    assert (await fetch(f"s3://{bucket}/odd", tmp_path / "t", server.variables)).word == ""
    assert tree(tmp_path / "t") == {key.removeprefix("odd/"): key.encode() for key in keys}


async def test_more_objects_than_a_page(server: ObjectServer, bucket: str, tmp_path: Path) -> None:
    for start in range(0, 1100, 50):
        await asyncio.gather(*(server.put(bucket, f"many/{n:04}", b"%d" % n) for n in range(start, start + 50)))
    assert (await fetch(f"s3://{bucket}/many", tmp_path / "t", server.variables)).word == ""
    assert tree(tmp_path / "t") == {f"{n:04}": b"%d" % n for n in range(1100)}


@pytest.mark.parametrize(
    ("address", "changes", "word", "sentence"),
    [
        ("s3://no-such-bucket/x", {}, "NotFound", "there is no bucket no-such-bucket on 127.0.0.1"),
        ("s3://{}/none", {}, "NothingFound", "there is no file in s3://{}/none"),
        ("s3://{}/data", {"SECRET_ACCESS_KEY": "wrong-secret"}, "TokenRefused", "does not accept the key"),
        ("s3://{}/data", {"ACCESS_KEY_ID": "unknown"}, "TokenRefused", "does not accept the key"),
        ("s3://{}/data", {"SECRET_ACCESS_KEY": ""}, "TokenMissing", "set both ACCESS_KEY_ID and SECRET_ACCESS_KEY"),
        ("s3://{}/data", {"REGION": "us-west-2"}, "WrongSetting", "is in region eu-test-1: set REGION to it"),
        (
            "s3://{}/data",
            {"ACCESS_KEY_ID": "", "SECRET_ACCESS_KEY": ""},
            "TokenMissing",
            "put ACCESS_KEY_ID and SECRET_ACCESS_KEY into a Secret and name it in spec.initializer.dataset.secretRef",
        ),
        ("s3://{}/data", {"ENDPOINT": "http://127.0.0.1:1"}, "Unreachable", "(Connection refused), after 5 tries"),
        ("s3://{}/data", {"ENDPOINT": "127.0.0.1"}, "WrongAddress", "it must be https://host"),
        ("s3:///data", {}, "WrongAddress", "names no bucket"),
    ],
)
async def test_what_is_wrong(
    server: ObjectServer, bucket: str, tmp_path: Path, address: str, changes: dict[str, str], word: str, sentence: str
) -> None:
    outcome = await fetch(address.format(bucket), tmp_path / "t", {**server.variables, **changes})
    assert (outcome.word, sentence.format(bucket) in outcome.sentence) == (word, True), outcome.sentence
    assert SECRET not in "".join([*outcome.lines, outcome.sentence])


async def test_a_public_bucket_needs_no_key(server: ObjectServer, bucket: str, tmp_path: Path) -> None:
    await server.publish(bucket)
    variables = {"ENDPOINT": server.url, "AWS_REGION": "eu-test-1"}
    outcome = await fetch(f"s3://{bucket}/data", tmp_path / "t", variables)
    assert (outcome.word, set(tree(tmp_path / "t"))) == ("", {"a.txt", "sub/b"})
    assert outcome.said("requests are not signed")


async def test_the_variables_of_aws(server: ObjectServer, bucket: str, tmp_path: Path) -> None:
    variables = {"AWS_ENDPOINT_URL": server.url, "AWS_REGION": "eu-test-1"}
    variables |= {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    assert (await fetch(f"s3://{bucket}/data", tmp_path / "t", variables)).word == ""
    assert set(tree(tmp_path / "t")) == {"a.txt", "sub/b"}


async def test_a_second_start_brings_changes_only(proxy: FaultyProxy, bucket: str, tmp_path: Path) -> None:
    await fetch(f"s3://{bucket}/data", tmp_path / "t", proxy.variables)
    outcome = await fetch(f"s3://{bucket}/data", tmp_path / "t", proxy.variables)
    assert outcome.said("is complete: nothing to fetch")
    assert (proxy.read("/data/a.txt"), proxy.read("/data/sub/b")) == (1, 1)
    await proxy.server.put(bucket, "data/a.txt", b"changed!!!")
    await fetch(f"s3://{bucket}/data", tmp_path / "t", proxy.variables)
    assert tree(tmp_path / "t")["a.txt"] == b"changed!!!"
    assert (proxy.read("/data/a.txt"), proxy.read("/data/sub/b")) == (2, 1)


async def test_a_storage_that_is_down_leaves_a_complete_folder_valid(
    proxy: FaultyProxy, bucket: str, tmp_path: Path
) -> None:
    await fetch(f"s3://{bucket}/data", tmp_path / "t", proxy.variables)

    async def down(request: web.Request) -> web.Response:
        return web.Response(status=503)

    proxy.faults.append(down)
    outcome = await fetch(f"s3://{bucket}/data", tmp_path / "t", proxy.variables)
    assert (outcome.word, outcome.said("is used as it is")) == ("", True)
    assert (await fetch(f"s3://{bucket}/data.txt", tmp_path / "t", proxy.variables)).word == "ServerError"
    assert set(tree(tmp_path / "t")) == {"a.txt", "sub/b"}


async def test_broken_connections_and_busy_answers_cost_their_piece_only(
    proxy: FaultyProxy, bucket: str, tmp_path: Path
) -> None:
    await proxy.server.put(bucket, "large", LARGE)
    left = [3]

    async def breaks(request: web.Request) -> web.StreamResponse | None:
        if not request.path.endswith("/large") or request.method != "GET" or not left[0]:
            return None
        left[0] -= 1
        if left[0] == 1:
            return web.Response(status=503, text="<Error><Code>SlowDown</Code></Error>")
        answer = await proxy.passed_on(request)
        if left[0]:
            return answer
        assert request.transport is not None
        request.transport.close()
        return answer

    proxy.faults.append(breaks)
    variables = {**proxy.variables, "TRAINWRIGHT_CONNECTIONS": "1"}
    outcome = await fetch(f"s3://{bucket}/large", tmp_path / "t", variables)
    assert (outcome.word, left) == ("", [0])
    assert tree(tmp_path / "t") == {"large": LARGE}
    # Each of the three pieces once, and that of the broken connection again.
    assert proxy.bytes_sent < len(LARGE) + 2**22 + 2**16


async def test_a_run_that_failed_goes_on_inside_an_object(proxy: FaultyProxy, bucket: str, tmp_path: Path) -> None:
    await proxy.server.put(bucket, "large", LARGE)

    async def ends(request: web.Request) -> web.StreamResponse | None:
        if not request.headers.get("Range", "").startswith("bytes=8388608-"):
            return None
        return web.Response(status=403, text="<Error><Code>AccessDenied</Code></Error>")

    proxy.faults.append(ends)
    variables = {**proxy.variables, "TRAINWRIGHT_CONNECTIONS": "1"}
    assert (await fetch(f"s3://{bucket}/large", tmp_path / "t", variables)).word == "AccessNotGranted"
    proxy.faults.clear()
    proxy.bytes_sent = 0
    assert (await fetch(f"s3://{bucket}/large", tmp_path / "t", variables)).word == ""
    assert tree(tmp_path / "t") == {"large": LARGE}
    assert proxy.bytes_sent < 2**20 + 2**16


async def test_an_object_that_is_replaced_meanwhile_is_never_mixed(
    proxy: FaultyProxy, bucket: str, tmp_path: Path
) -> None:
    await proxy.server.put(bucket, "large", LARGE)

    async def replaces(request: web.Request) -> web.StreamResponse | None:
        if request.headers.get("Range", "").startswith("bytes=4194304-"):
            proxy.faults.clear()
            await proxy.server.put(bucket, "large", LARGE[::-1])
        return None

    proxy.faults.append(replaces)
    variables = {**proxy.variables, "TRAINWRIGHT_CONNECTIONS": "1"}
    outcome = await fetch(f"s3://{bucket}/large", tmp_path / "t", variables)
    assert (outcome.word, "was changed" in outcome.sentence) == ("Damaged", True)
    assert tree(tmp_path / "t") == {}
    assert (await fetch(f"s3://{bucket}/large", tmp_path / "t", variables)).word == ""
    assert tree(tmp_path / "t") == {"large": LARGE[::-1]}


async def test_a_wrong_byte_is_found(proxy: FaultyProxy, bucket: str, tmp_path: Path) -> None:
    async def flips(request: web.Request) -> web.StreamResponse | None:
        if not request.path.endswith("/a.txt"):
            return None
        answer = await proxy.passed_on(request)
        assert isinstance(answer.body, bytes)
        answer.body = bytes([answer.body[0] ^ len(proxy.requests) % 7 + 1, *answer.body[1:]])
        return answer

    proxy.faults.append(flips)
    outcome = await fetch(f"s3://{bucket}/data", tmp_path / "t", proxy.variables)
    assert (outcome.word, outcome.sentence) == ("Damaged", "a.txt arrived twice: a.txt has a wrong MD5")
    assert "a.txt" not in tree(tmp_path / "t")


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "AWS_CA_BUNDLE"])
async def test_a_certificate_of_an_own_authority(tmp_path: Path, variable: str) -> None:
    with object_server(tmp_path / "storage", tls=True) as server:
        (server.root / server.bucket("own-bucket") / "x").write_bytes(b"of a test")
        command = [sys.executable, "-m", "trainwright.controller.cli.main", "initialize", "dataset"]
        arguments = ["--storage-uri=s3://own-bucket", f"--output={tmp_path}/t"]
        process = await asyncio.create_subprocess_exec(
            *command,
            *arguments,
            env={**environment(tmp_path), **server.variables, variable: str(server.ca)},
            stderr=asyncio.subprocess.PIPE,
        )
        _, error = await process.communicate()
    assert process.returncode == 0, error.decode()
    assert tree(tmp_path / "t") == {"x": b"of a test"}


async def test_the_process_ends_with_its_own_code_whatever_threads_do(
    server: ObjectServer, bucket: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "trainwright.controller.cli.main", "initialize", "dataset"]
    environ = {**environment(tmp_path), **server.variables}
    codes = []
    for address in (f"s3://{bucket}/data", f"s3://{bucket}/none", f"s3://{bucket}/data.txt"):
        process = await asyncio.create_subprocess_exec(
            *command, f"--storage-uri={address}", f"--output={tmp_path}/t", env=environ, stderr=asyncio.subprocess.PIPE
        )
        _, error = await process.communicate()
        codes.append(process.returncode)
        assert SECRET.encode() not in error
    assert codes == [0, 1, 0]
