# SPDX-License-Identifier: Apache-2.0
"""Tokens of service accounts: requests, claims, reviews, and what ends their validity."""

import base64
import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from tests.unit.local.identity.conftest import ACCOUNTS, AUDIENCE, PODS, Asker, Create, Document
from trainwright.controller.runtime.testing.clock import ManualClock

USER = "system:serviceaccount:default:a"
POD_REFERENCE = {"apiVersion": "v1", "kind": "Pod", "name": "p"}


def decoded(part: str) -> Any:
    return json.loads(base64.urlsafe_b64decode(part + "=="))


def claims(token: str) -> Document:
    found: Document = decoded(token.split(".")[1])
    return found


async def test_a_token_has_the_claims_of_its_account(ask: Asker, clock: ManualClock[datetime]) -> None:
    token = await ask.token()
    _, account = await ask("GET", f"{ACCOUNTS}/a")
    made = claims(token)
    assert len(made.pop("jti")) == 36
    now = int(clock.now.timestamp())
    assert made == {
        "iss": AUDIENCE,
        "aud": [AUDIENCE],
        "sub": USER,
        "iat": now,
        "nbf": now,
        "exp": now + 3600,
        "kubernetes.io": {
            "namespace": "default",
            "serviceaccount": {"name": "a", "uid": account["metadata"]["uid"]},
        },
    }


async def test_the_published_key_verifies_a_token(ask: Asker) -> None:
    token = await ask.token()
    _, configuration = await ask("GET", "/.well-known/openid-configuration")
    assert configuration["issuer"] == claims(token)["iss"]
    assert configuration["jwks_uri"] == f"{ask.api.config.server}/openid/v1/jwks"
    _, keys = await ask("GET", "/openid/v1/jwks", accept="application/jwk-set+json")
    (key,) = keys["keys"]
    header, payload, signature = token.split(".")
    assert decoded(header) == {"alg": "ES256", "kid": key["kid"]}
    x, y = (int.from_bytes(base64.urlsafe_b64decode(key[axis] + "="), "big") for axis in ("x", "y"))
    raw = base64.urlsafe_b64decode(signature + "==")
    der = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    public = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    public.verify(der, f"{header}.{payload}".encode(), ec.ECDSA(hashes.SHA256()))


async def test_a_token_of_a_pod_tells_pod_and_node(
    ask: Asker, create_pod: Create, clock: ManualClock[datetime]
) -> None:
    pod = await create_pod(nodeName="n")
    token = await ask.token(boundObjectRef=POD_REFERENCE, expirationSeconds=3607)
    said = claims(token)
    assert said["kubernetes.io"]["pod"] == {"name": "p", "uid": pod["metadata"]["uid"]}
    assert said["kubernetes.io"]["node"] == {"name": "n"}
    # The life that pods' own tokens ask for is extended to a year.
    assert said["exp"] - said["iat"] == 365 * 24 * 3600
    assert said["kubernetes.io"]["warnafter"] == said["iat"] + 3607
    _, review = await ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, token=token)
    _, account = await ask("GET", f"{ACCOUNTS}/a")
    assert review["status"]["userInfo"] == {
        "username": USER,
        "uid": account["metadata"]["uid"],
        "groups": ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"],
        "extra": {
            "authentication.kubernetes.io/credential-id": [f"JTI={said['jti']}"],
            "authentication.kubernetes.io/node-name": ["n"],
            "authentication.kubernetes.io/pod-name": ["p"],
            "authentication.kubernetes.io/pod-uid": [pod["metadata"]["uid"]],
        },
    }


async def test_a_token_for_others_is_none_for_the_api_server(ask: Asker) -> None:
    token = await ask.token(audiences=["x", "y"])
    assert (await ask.review(token, "y", "z"))["audiences"] == ["y"]
    assert (await ask("GET", PODS, token=token))[0] == 401
    assert (await ask.review(ask.admin))["authenticated"]
    assert (await ask.review(ask.admin, "z")) == {"user": {}, "error": "invalid bearer token"}


async def test_a_token_expires_with_a_minute_of_leeway(ask: Asker, clock: ManualClock[datetime]) -> None:
    token = await ask.token(expirationSeconds=600)
    clock.now += timedelta(seconds=659)
    assert (await ask.review(token))["authenticated"]
    clock.now += timedelta(seconds=2)
    assert (await ask.review(token))["error"] == "[invalid bearer token, service account token has expired]"
    assert (await ask("GET", PODS, token=token))[0] == 401


async def test_a_token_ends_with_its_pod(ask: Asker, create_pod: Create) -> None:
    pod = await create_pod()
    token = await ask.token(boundObjectRef=POD_REFERENCE)
    assert (await ask("GET", PODS, token=token))[0] == 200
    await ask("DELETE", f"{PODS}/p?gracePeriodSeconds=0")
    assert "service account token has been invalidated" in (await ask.review(token))["error"]
    again = await create_pod()
    uids = again["metadata"]["uid"], pod["metadata"]["uid"]
    text = f"pod UID ({uids[0]}) does not match service account pod ref claim ({uids[1]})"
    assert (await ask.review(token))["error"] == f"[invalid bearer token, {text}]"


async def test_a_pod_that_is_being_deleted_keeps_its_token_for_a_minute(
    ask: Asker, create_pod: Create, clock: ManualClock[datetime]
) -> None:
    await create_pod(nodeName="n")
    token = await ask.token(boundObjectRef=POD_REFERENCE)
    await ask("DELETE", f"{PODS}/p?gracePeriodSeconds=30")
    clock.now += timedelta(seconds=80)
    assert (await ask.review(token))["authenticated"]
    clock.now += timedelta(seconds=20)
    assert "has been invalidated" in (await ask.review(token))["error"]


@pytest.mark.parametrize("change", ["signature", "claims", "garbage"])
async def test_forged_tokens_are_refused(ask: Asker, change: str) -> None:
    header, payload, signature = (await ask.token()).split(".")
    said = claims(f".{payload}.") | {"sub": "system:serviceaccount:kube-system:x"}
    forged = base64.urlsafe_b64encode(json.dumps(said).encode()).rstrip(b"=").decode()
    token = {
        "signature": f"{header}.{payload}.{'A' * 86}",
        "claims": f"{header}.{forged}.{signature}",
        "garbage": "a.b.c",
    }[change]
    assert (await ask("GET", PODS, token=token))[0] == 401
    expected = (
        "" if change == "garbage" else "[invalid bearer token, go-jose/go-jose: error in cryptographic primitive]"
    )
    assert (await ask.review(token))["error"] == (expected or "invalid bearer token")
