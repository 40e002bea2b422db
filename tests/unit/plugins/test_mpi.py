# SPDX-License-Identifier: Apache-2.0
"""The keys of MPI; tests/conformance/renderings has the rest."""

import base64

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.unit.plugins.blueprints import (
    PIPELINE,
    blueprint,
    job_template,
    outcome,
)
from trainwright.plugins.contract import OFFLINE, PLACEHOLDER, Stage
from trainwright.plugins.testing import train_job

MADE = blueprint("{mpi: {}}", job_template("launcher", None), job_template())


def test_keys_need_no_look_at_the_cluster() -> None:
    """The manager may not read Secrets: whether there are keys shows when it creates them."""
    run = PIPELINE.begin(train_job(), MADE)
    assert "Secret" not in {reference.resource.kind for reference in run.references()}
    made = [one for one in run.render(OFFLINE).components if one.resource.kind == "Secret"]
    assert [(one.reference.name, one.document["type"], one.stage) for one in made] == [
        ("job-mpi-ssh-auth", "kubernetes.io/ssh-auth", Stage.POD_INPUT)
    ]


def test_a_key_pair_is_fresh_and_matches() -> None:
    component = outcome(MADE).component("Secret")
    assert component.document["type"] == "kubernetes.io/ssh-auth"
    assert component.document["immutable"] is True
    assert component.document["data"] == {"ssh-privatekey": PLACEHOLDER, "ssh-publickey": PLACEHOLDER}
    assert component.generate is not None
    one, two = (component.generate(component.document) for _ in range(2))
    assert {name: value for name, value in one.items() if name != "data"} == {
        name: value for name, value in component.document.items() if name != "data"
    }
    assert one["data"]["ssh-privatekey"] != two["data"]["ssh-privatekey"]
    private, public = (base64.b64decode(one["data"][name]) for name in ("ssh-privatekey", "ssh-publickey"))
    assert private.startswith(b"-----BEGIN EC PRIVATE KEY-----\n")
    assert public.startswith(b"ecdsa-sha2-nistp521 ")
    assert public.endswith(b"\n")
    key, other = serialization.load_pem_private_key(private, None), serialization.load_ssh_public_key(public)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert isinstance(other, ec.EllipticCurvePublicKey)
    assert key.public_key().public_numbers() == other.public_numbers()
