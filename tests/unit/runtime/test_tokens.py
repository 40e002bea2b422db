# SPDX-License-Identifier: Apache-2.0
"""Tokens: which ones are valid, how often the API server is asked, and what holds when it does not answer."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.issuers import NAME, Signer, claims
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.client.config import ClusterConfig
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.errors import TokenRefused, TokensUnavailable, Unreachable
from trainwright.controller.runtime.testing.clock import jumping
from trainwright.controller.runtime.testing.scripted import ScriptedTransport, status_body
from trainwright.controller.runtime.tokens.reviews import TokenMemory
from trainwright.controller.runtime.tokens.signatures import LONGEST, parse, read_keys, to_base64
from trainwright.controller.runtime.tokens.verifier import DISCOVERY, KEYS, TokenVerifier, own_token
from trainwright.controller.runtime.workqueue.limiters import TokenBucket

FOREVER = float("inf")
START = datetime(2026, 11, 22, tzinfo=UTC)
FOR = "server"


def is_keys(request: Request) -> bool:
    return request.path == KEYS


def is_discovery(request: Request) -> bool:
    return request.path == DISCOVERY


def is_review(request: Request) -> bool:
    return request.path.endswith("tokenreviews")


class Cluster:
    """A scripted API server, and a verifier whose two clocks go with the clock of the loop."""

    def __init__(self, *, own: str = "") -> None:
        self.transport = ScriptedTransport()
        self.loop = asyncio.get_running_loop()
        self.verifier = TokenVerifier(Client(self.transport), own=lambda: own, now=self.now)

    def now(self) -> datetime:
        return START + timedelta(seconds=self.loop.time())

    def claims(self, audience: str = FOR, **changes: Any) -> dict[str, Any]:
        return claims(audience, now=self.now().timestamp(), **changes)

    def publishes(self, *keys: dict[str, Any], issuer: str = NAME, times: float = FOREVER) -> None:
        """Keys and discovery, whose `jwks_uri` leads nowhere."""
        discovery = {"issuer": issuer, "jwks_uri": "https://nowhere.invalid/keys"}
        self.transport.answer(is_keys, {"keys": keys}, times=times)
        self.transport.answer(is_discovery, discovery, times=times)

    def refuses(self, when: Any, code: int, reason: str, *, times: float = FOREVER) -> None:
        self.transport.answer(when, status_body(code, reason), status=code, times=times)

    def reviews(self, *, authenticated: bool, audiences: tuple[str, ...] = (FOR,), times: float = FOREVER) -> None:
        user = {"username": "system:serviceaccount:default:default", "uid": "account-uid"}
        status = {"authenticated": authenticated, "user": user if authenticated else {}, "audiences": audiences}
        self.transport.answer(is_review, {"status": status}, times=times)

    def count(self, when: Any) -> int:
        return sum(map(when, self.transport.requests))

    async def refuse(self, token: str, audience: str = FOR) -> str:
        with pytest.raises(TokenRefused) as refused:
            await self.verifier.verify(token, audience)
        assert token not in str(refused.value) or not token
        return str(refused.value)


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "ES512"])
def test_every_algorithm_of_kubernetes_is_verified(algorithm: str) -> None:
    @jumping
    async def run() -> None:
        cluster, signer = Cluster(), Signer(algorithm)
        cluster.publishes(signer.public(), signer.public(kid="two"))
        token = signer.sign(cluster.claims(pod=("node-0", "pod-uid")))
        found = await cluster.verifier.verify(token, FOR)
        assert (found.kubernetes.pod.name, found.kubernetes.pod.uid) == ("node-0", "pod-uid")
        assert found.exp == cluster.now().timestamp() + 3600
        # Without the name of a key, each key is tried; a key that names no algorithm takes that of its type.
        await cluster.verifier.verify(signer.sign(cluster.claims(), kid=None), FOR)
        stranger = Signer(algorithm, number=1)
        await cluster.refuse(stranger.sign(cluster.claims()))
        await cluster.refuse(stranger.sign(cluster.claims(), kid=None))
        signed, _, signature = token.rpartition(".")
        await cluster.refuse(f"{signed}.{signature[:-8]}")
        await cluster.refuse(f"{signed}.")
        assert cluster.count(is_keys) == 1

    run()


@jumping
async def test_an_algorithm_that_the_key_is_not_for_is_refused() -> None:
    cluster, rsa, curve = Cluster(), Signer("RS256", "rsa"), Signer("ES256", "curve")
    cluster.publishes(rsa.public(), curve.public())
    body = cluster.claims()
    await cluster.verifier.verify(rsa.sign(body), FOR)
    for header in ({"alg": "none"}, {"alg": "HS256"}, {"alg": "RS512"}, {"alg": "PS256"}, {"kid": "curve"}):
        await cluster.refuse(rsa.sign(body, **header))
    await cluster.refuse(curve.sign(body, kid="rsa"))
    await cluster.refuse(curve.sign(body, crit=["exp"]))
    unsigned = f"{to_base64(json.dumps({'alg': 'none'}).encode())}.{to_base64(json.dumps(body).encode())}."
    await cluster.refuse(unsigned)
    assert cluster.count(is_keys) == 1


@jumping
async def test_a_token_must_be_for_this_server_and_valid_now() -> None:
    cluster, signer = Cluster(), Signer()
    cluster.publishes(signer.public())
    now = cluster.now().timestamp()
    refused: dict[str, list[dict[str, Any]]] = {
        "another audience": [{"aud": ["other"]}, {"aud": "other"}, {"aud": []}, {"aud": None}],
        "has expired": [{"exp": now - 60}, {"exp": -5}],
        "not valid yet": [{"nbf": now + 61}],
        "another issuer": [{"iss": "https://other"}, {"iss": ""}],
        "cannot be decoded": [{"exp": None}, {"exp": "soon"}, {"exp": True}, {"iss": 5}, {"aud": {}}, {"nbf": "now"}],
    }
    for why, changes in refused.items():
        for change in changes:
            assert why in await cluster.refuse(signer.sign(cluster.claims(**change))), change
    accepted: list[dict[str, Any]] = [
        {"exp": now - 59},
        {"nbf": now + 60},
        {"nbf": None},
        {"aud": FOR},
        {"aud": ["x", FOR]},
    ]
    for change in accepted:
        await cluster.verifier.verify(signer.sign(cluster.claims(**change)), FOR)
    # No token that is meant for somebody else costs a request, an unknown issuer one at most.
    assert cluster.count(is_keys) == 1


@pytest.mark.parametrize(
    "token",
    [
        "",
        "abc",
        "a.b",
        "a.b.c.d",
        "..",
        "é.é.é",
        "a" * (LONGEST + 1),
        f"{to_base64(b'[]')}.{to_base64(b'{}')}.",
        f"{to_base64(b'[' * 9000)}.{to_base64(b'{}')}.",
        to_base64(b'{"alg":' + b'{"a":' * 2000) + ".e30.",
        to_base64(b'{"alg":"ES256"}') + "." + to_base64(b'{"iss":"", "exp":1,"a":' + b'{"a":' * 2000) + ".",
        f"{to_base64(bytes(range(256)))}.{to_base64(b'{}')}.",
    ],
    ids=range(12),
)
def test_text_that_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(TokenRefused):
        parse(token)


def test_a_token_has_one_encoding_only() -> None:
    token = Signer().sign(claims(FOR))
    parse(token)
    for other in (f"{token}=", f" {token}", f"{token[:-1]}\n{token[-1]}", f"{token[:-2]}+/"):
        with pytest.raises(TokenRefused):
            parse(other)
    # 64 bytes are 85 characters and two bits, so the four other bits of the last character must be zero.
    follower = {"A": "B", "Q": "R", "g": "h", "w": "x"}[token[-1]]
    with pytest.raises(TokenRefused):
        parse(token[:-1] + follower)


@jumping
async def test_keys_are_read_again_for_an_unknown_name_every_ten_seconds_at_most() -> None:
    cluster, old, new = Cluster(), Signer(key_id="old"), Signer(key_id="new")
    cluster.publishes(old.public(), times=2)
    await cluster.verifier.verify(old.sign(cluster.claims()), FOR)
    for _ in range(50):
        await cluster.refuse(new.sign(cluster.claims()))
    assert cluster.count(is_keys) == 1
    await asyncio.sleep(10)
    both = await asyncio.gather(*(cluster.refuse(new.sign(cluster.claims())) for _ in range(20)))
    assert len(both) == 20
    assert cluster.count(is_keys) == 2
    cluster.publishes(old.public(), new.public())
    await asyncio.sleep(10)
    await cluster.verifier.verify(new.sign(cluster.claims()), FOR)
    await cluster.verifier.verify(old.sign(cluster.claims()), FOR)
    assert cluster.count(is_keys) == 3


@jumping
async def test_keys_that_are_not_published_any_longer_stop_counting() -> None:
    cluster, old, new = Cluster(), Signer(key_id="old"), Signer(key_id="new")
    cluster.publishes(old.public(), times=1)
    assert await cluster.verifier.look() == 300
    await cluster.verifier.verify(old.sign(cluster.claims()), FOR)
    cluster.publishes(new.public())
    await asyncio.sleep(300)
    await cluster.verifier.look()
    await cluster.refuse(old.sign(cluster.claims()))
    await cluster.verifier.verify(new.sign(cluster.claims()), FOR)


@jumping
async def test_known_keys_verify_while_the_api_server_is_away() -> None:
    cluster, signer = Cluster(), Signer()
    cluster.publishes(signer.public(), times=1)
    await cluster.verifier.look()
    cluster.transport.fail(is_keys, Unreachable("refused"), times=FOREVER)
    await asyncio.sleep(300)
    assert await cluster.verifier.look() == 10
    assert cluster.verifier.unready() is None
    await cluster.verifier.verify(signer.sign(cluster.claims()), FOR)
    # An unknown key may be a new one, so the token is not refused for good.
    with pytest.raises(TokensUnavailable, match="unknown key or issuer"):
        await cluster.verifier.verify(signer.sign(cluster.claims(), kid="new"), FOR)


@jumping
async def test_a_silent_api_server_holds_up_a_token_for_five_seconds_only() -> None:
    cluster, signer = Cluster(), Signer()
    cluster.publishes(signer.public(), times=1)
    await cluster.verifier.look()
    cluster.transport.answer(is_keys, delay=3600, times=FOREVER)
    await asyncio.sleep(300)
    begin = cluster.loop.time()
    with pytest.raises(TokensUnavailable, match="no answer within 5 s"):
        await cluster.verifier.verify(signer.sign(cluster.claims(), kid="new"), FOR)
    assert cluster.loop.time() - begin == 5
    await cluster.verifier.verify(signer.sign(cluster.claims()), FOR)


@jumping
async def test_the_issuer_is_that_of_the_own_token_or_of_the_discovery() -> None:
    signer = Signer()
    own = signer.sign(claims("api", iss="https://own"))
    cluster = Cluster(own=own)
    cluster.publishes(signer.public())
    await cluster.verifier.verify(signer.sign(cluster.claims(iss="https://own")), FOR)
    await cluster.verifier.verify(signer.sign(cluster.claims()), FOR)
    without = Cluster(own=own)
    without.transport.answer(is_keys, {"keys": [signer.public()]}, times=FOREVER)
    without.refuses(is_discovery, 403, "Forbidden")
    await without.verifier.verify(signer.sign(without.claims(iss="https://own")), FOR)
    await without.refuse(signer.sign(without.claims()))
    # A token of a person names another provider.
    person = Cluster(own=signer.sign({"iss": "https://accounts", "exp": 1}))
    person.publishes(signer.public())
    await person.refuse(signer.sign(person.claims(iss="https://accounts")))


@pytest.mark.parametrize(("code", "reason"), [(404, "NotFound"), (403, "Forbidden")])
def test_token_reviews_are_the_way_out(code: int, reason: str) -> None:
    @jumping
    async def run() -> None:
        cluster, signer = Cluster(), Signer()
        cluster.refuses(is_keys, code, reason)
        cluster.reviews(authenticated=True)
        assert await cluster.verifier.look() == 60
        assert cluster.verifier.unready() is None
        token, another = signer.sign(cluster.claims()), signer.sign(cluster.claims(jti="2"))
        probes = cluster.count(is_review)
        for _ in range(5):
            assert (await cluster.verifier.verify(token, FOR)).kubernetes.serviceaccount.name == "default"
        assert cluster.count(is_review) == probes + 1
        body = cluster.transport.requests[-1].body
        assert body is not None
        assert json.loads(body)["spec"] == {"token": token, "audiences": [FOR]}
        await cluster.verifier.verify(another, FOR)
        assert cluster.count(is_review) == probes + 2
        await asyncio.sleep(60)
        await cluster.verifier.verify(token, FOR)
        assert cluster.count(is_review) == probes + 3
        # Claims are checked first: a token for another server is not sent there.
        await cluster.refuse(signer.sign(cluster.claims("other")))
        assert cluster.count(is_review) == probes + 3
        assert cluster.count(is_keys) == 1, "requests do not ask for keys that are not published"

    run()


@jumping
async def test_a_refused_token_is_remembered_for_ten_seconds() -> None:
    cluster, signer = Cluster(), Signer()
    cluster.refuses(is_keys, 404, "NotFound")
    cluster.reviews(authenticated=False)
    token = signer.sign(cluster.claims())
    await cluster.refuse(token)
    await cluster.refuse(token)
    assert cluster.count(is_review) == 1
    await asyncio.sleep(10)
    await cluster.refuse(token)
    assert cluster.count(is_review) == 2


@jumping
async def test_a_review_must_confirm_the_audience() -> None:
    cluster, signer = Cluster(), Signer()
    cluster.refuses(is_keys, 404, "NotFound")
    cluster.reviews(authenticated=True, audiences=("https://kubernetes.default.svc",))
    await cluster.refuse(signer.sign(cluster.claims()))


@jumping
async def test_twenty_reviews_a_second_at_most() -> None:
    cluster, signer = Cluster(), Signer()
    cluster.refuses(is_keys, 404, "NotFound")
    cluster.reviews(authenticated=True)
    await cluster.verifier.look()
    before = cluster.count(is_review)
    tokens = [signer.sign(cluster.claims(jti=str(number))) for number in range(300)]
    results = await asyncio.gather(*(cluster.verifier.verify(one, FOR) for one in tokens), return_exceptions=True)
    failed = [result for result in results if isinstance(result, TokensUnavailable)]
    passed = cluster.count(is_review) - before
    assert len(failed) + passed == 300
    assert 59 <= passed <= 61, "a burst of a second, and those whose turn comes within two"
    for second in range(3):
        assert sum(second <= time < second + 1 for time in cluster.transport.times) <= 42
    # What was refused reserves nothing: the next second is free for others.
    await asyncio.sleep(1)
    await cluster.verifier.verify(signer.sign(cluster.claims(jti="later")), FOR)
    assert cluster.verifier.unready() is None


@jumping
async def test_without_keys_and_reviews_nothing_is_decided() -> None:
    cluster, signer = Cluster(), Signer()
    cluster.refuses(is_keys, 403, "Forbidden", times=2)
    cluster.refuses(is_review, 403, "Forbidden")
    assert "has not been read" in (cluster.verifier.unready() or "")
    assert await cluster.verifier.look() == 10
    reason = cluster.verifier.unready() or ""
    assert KEYS in reason
    assert "tokenreviews" in reason
    token = signer.sign(cluster.claims())
    with pytest.raises(TokensUnavailable):
        await cluster.verifier.verify(token, FOR)
    await cluster.refuse("garbage")
    await asyncio.sleep(10)
    with pytest.raises(TokensUnavailable):
        await cluster.verifier.verify(token, FOR)
    cluster.publishes(signer.public())
    await asyncio.sleep(10)
    await cluster.verifier.verify(token, FOR)
    assert cluster.verifier.unready() is None


@jumping
async def test_a_right_that_is_taken_away_leads_to_reviews() -> None:
    cluster, signer = Cluster(), Signer()
    cluster.publishes(signer.public(), times=1)
    await cluster.verifier.look()
    cluster.refuses(is_keys, 403, "Forbidden", times=1)
    cluster.reviews(authenticated=True)
    await asyncio.sleep(300)
    assert await cluster.verifier.look() == 60
    await cluster.verifier.verify(signer.sign(cluster.claims()), FOR)
    assert cluster.count(is_review) == 2
    cluster.publishes(signer.public())
    await asyncio.sleep(60)
    assert await cluster.verifier.look() == 300
    await cluster.verifier.verify(signer.sign(cluster.claims(jti="2")), FOR)
    assert cluster.count(is_review) == 2


def test_unusable_keys_are_left_out(caplog: Any) -> None:
    rsa, curve = Signer("RS256", "rsa"), Signer("ES256", "curve")
    unusable = [
        rsa.public(use="enc"),
        rsa.public(alg="RSA-OAEP"),
        rsa.public(kty="OKP"),
        rsa.public(n=5),
        rsa.public(n="!"),
        rsa.public(e="AA"),
        curve.public(crv="P-192"),
        curve.public(x=curve.public()["y"]),
        Signer("RS256", bits=1024).public(),
        "text",
        None,
    ]
    body = json.dumps({"keys": [*unusable, rsa.public(), curve.public(alg=None)]}).encode()
    assert [key.id for key in read_keys(body)] == ["rsa", "curve"]
    assert len(caplog.records) == len(unusable)
    for wrong in (b"", b"[]", b"{}", b'{"keys":{}}'):
        with pytest.raises(ValueError, match=r"."):
            read_keys(wrong)


def test_the_own_token_is_read_from_the_file_each_time(tmp_path: Path) -> None:
    file = tmp_path / "token"
    config = ClusterConfig(server="https://x", token_file=str(file), token="other")
    assert own_token(config) == ""
    file.write_text("one\n")
    assert own_token(config) == "one"
    file.write_text("two")
    assert own_token(config) == "two"
    assert own_token(ClusterConfig(server="https://x", token="other")) == "other"


def test_memory_forgets_in_time_and_does_not_grow() -> None:
    now = 0.0
    memory: TokenMemory[int, str] = TokenMemory(3, time=lambda: now)
    for number in range(5):
        memory.put(number, str(number), 10 + number)
    assert [memory.get(number) for number in range(5)] == [None, None, "2", "3", "4"]
    now = 12.0
    assert memory.get(2) is None
    assert len(memory) == 2
    memory.put(3, "new", 10)
    memory.put(5, "5", 10)
    memory.put(6, "6", 10)
    assert (memory.get(3), memory.get(4)) == ("new", None)


def test_a_bucket_that_is_not_waited_for_keeps_its_tokens() -> None:
    now = 0.0
    bucket = TokenBucket(10, 1, time=lambda: now)
    assert [bucket.delay_within(0.1) for _ in range(4)] == [0.0, pytest.approx(0.1), None, None]
    now = 0.2
    assert bucket.delay_within(0.1) == 0.0
