# SPDX-License-Identifier: Apache-2.0
"""The SSH key pair with which the launcher reaches the nodes.

Made once, when the Secret is created; the pipeline's document holds placeholders, so that the same inputs give the same
bytes and no key is ever printed.
"""

import base64

from trainwright.controller.runtime.objects import Document

PRIVATE = "ssh-privatekey"
PUBLIC = "ssh-publickey"


def with_new_keys(document: Document) -> Document:
    """The document with a fresh ECDSA P-521 pair: private key in PEM (SEC1), public key as an authorized_keys line."""
    # Loaded here: only who creates keys needs it.
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP521R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH) + b"\n"
    return {**document, "data": {PRIVATE: _encoded(private), PUBLIC: _encoded(public)}}


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")
